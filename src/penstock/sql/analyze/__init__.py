"""Analysis of a query: its columns, lineage, windows, state and fallible expressions."""
