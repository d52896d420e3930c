"""Reserved columns, operations and key order of rows, for all connectors."""
