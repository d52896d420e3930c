"""Java code for Spark: packages, compiled functions, and expressions that PySpark has no function for."""
