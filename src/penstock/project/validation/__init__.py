"""Converts values to models: alternative spellings, placeholders for unset variables, errors as diagnostics."""
