"""Templates in SQL: `ref` and `source`, Jinja with limits, and positions in the file for rendered text."""
