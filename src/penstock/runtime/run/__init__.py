"""From a plan to its end: starts queries, supervises them, and tells how far they are."""
