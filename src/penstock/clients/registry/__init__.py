"""A schema registry: its client, its schemas as columns, and what it said, kept for a run."""
