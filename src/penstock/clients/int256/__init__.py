"""Whole numbers of 256 bits, which Spark has no type for."""
