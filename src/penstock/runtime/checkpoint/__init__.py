"""The content of checkpoints, and Penstock's own notes in them. Nothing here starts a query."""
