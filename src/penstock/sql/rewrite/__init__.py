"""The translation of Flink SQL and pipeline SQL to Spark SQL."""
