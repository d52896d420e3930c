"""Runs queries in Spark: sessions, queries, and their results. Only here and in `testing` is pyspark imported at module
level."""
