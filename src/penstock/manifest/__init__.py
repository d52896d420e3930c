"""The compiled project: one JSON document that says everything that would run."""
