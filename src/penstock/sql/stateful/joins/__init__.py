"""Joins: by time bounds, of changes, with versions, and those that Spark does itself."""
