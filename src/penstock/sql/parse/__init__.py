"""Parsing of the supported dialects into a tree."""
