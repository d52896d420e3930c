"""Runs a plan: starts its queries, supervises them, and reports their progress."""
