"""Runs queries in Spark. Only here and in `testing` is pyspark imported at module level."""
