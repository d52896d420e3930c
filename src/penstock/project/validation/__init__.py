"""Converts values to models: alternative spellings, stand-ins for unset variables, errors as diagnostics."""
