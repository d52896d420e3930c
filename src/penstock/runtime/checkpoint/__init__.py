"""What is in a checkpoint, and what Penstock notes next to it. Nothing here starts a query."""
