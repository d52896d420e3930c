"""Spark: sessions, queries, and what becomes of them. pyspark is imported here, and in `testing`, at module level."""
