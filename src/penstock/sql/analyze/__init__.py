"""What a query says about its columns, lineage, windows, state and fallible expressions."""
