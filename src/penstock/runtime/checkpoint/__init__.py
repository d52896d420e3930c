"""What a checkpoint says and what is kept beside it. Nothing here starts a query."""
