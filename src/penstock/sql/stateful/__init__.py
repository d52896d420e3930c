"""The split of SQL that Spark cannot stream by itself into stages: SQL before, a stateful operator, SQL after."""
