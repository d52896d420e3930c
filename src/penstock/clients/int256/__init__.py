"""256-bit integers, for which Spark has no type."""
