"""Java functions over single rows that Spark SQL lacks."""
