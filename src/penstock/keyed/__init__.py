"""Operators with memory that Spark SQL does not have: what they are, and how they work on Arrow tables."""
