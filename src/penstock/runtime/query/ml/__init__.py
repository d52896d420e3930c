"""Models of machine learning: ONNX files as functions of Spark SQL."""
