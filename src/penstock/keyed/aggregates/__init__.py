"""The kernel of aggregates by key, and the state of its calls."""
