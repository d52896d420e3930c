"""Links the pipeline format, and checks a pipeline as a whole."""
