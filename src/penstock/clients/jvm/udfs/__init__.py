"""Functions over single rows that Spark has no words for: Java, compiled once by what comes with Spark."""
