"""A batch from arrival to commit: reading it, rules, sinks, rows that are rejected, and the counts."""
