"""The columns and rows that the readers of a source need."""
