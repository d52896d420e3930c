"""SQL as a tree: parsing, references, columns, shape, and rewriting to Spark. The only package that uses sqlglot."""
