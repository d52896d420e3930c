"""Machine-learning models: ONNX files as functions of Spark SQL."""
