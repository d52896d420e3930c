"""Penstock: streaming pipelines as code, on Spark Structured Streaming."""

__version__ = "0.1.0"
