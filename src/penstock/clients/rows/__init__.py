"""Columns and keys that rows of every connector share."""
