"""Clients of external systems, and code that several connectors share."""
