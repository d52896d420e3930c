"""Compares a query with its deployed edition: what differs, whether state still fits, what was renamed or moved."""
