"""One file = one system that streams come from or go to."""
