"""Reads `functions/`: Python files become the signatures of functions that SQL can call. Nothing of them is run."""
