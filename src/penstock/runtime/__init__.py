"""Spark: sessions, queries, and what becomes of them. The only room that imports pyspark at module level."""
