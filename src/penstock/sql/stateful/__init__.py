"""SQL that Spark cannot stream by itself, carved into stages: SQL before, an operator with memory, SQL behind."""
