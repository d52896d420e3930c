"""Types of columns: names, families, coercion and inference."""
