"""Rows and records that could not be processed: found, kept, listed, and replayed."""
