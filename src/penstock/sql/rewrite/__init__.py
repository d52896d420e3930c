"""From a tree of Flink or pipeline SQL to Spark SQL."""
