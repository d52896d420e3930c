"""Connectors: one module per system that streams are read from or written to."""
