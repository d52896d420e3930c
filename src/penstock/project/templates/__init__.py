"""Templates in SQL: `ref` and `source`, Jinja with its limits, and the way back from rendered text to its file."""
