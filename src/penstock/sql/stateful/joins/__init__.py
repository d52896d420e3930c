"""Joins: with time bounds, of changes, with versions, and those that Spark runs itself."""
