"""The kernel of aggregates by key, and the ways in which its calls keep their values."""
