"""YAML files as values that know file, line and column; environment variables and secrets in them."""
