"""Java beside Spark: packages, compiled functions, and expressions that PySpark has no name for."""
