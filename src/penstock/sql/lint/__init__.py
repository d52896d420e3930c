"""Mistakes that are found before anything runs."""
