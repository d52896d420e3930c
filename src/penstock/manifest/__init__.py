"""The compiled project: one JSON document with everything that would run."""
