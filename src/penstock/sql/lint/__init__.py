"""Checks that find mistakes before a query runs."""
