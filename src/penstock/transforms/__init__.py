"""What a pipeline can do to rows between a source and a sink."""
