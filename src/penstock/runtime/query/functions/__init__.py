"""User functions: Python over Arrow batches, as functions of Spark SQL."""
