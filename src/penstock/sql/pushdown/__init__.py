"""What the readers of a source need of it."""
