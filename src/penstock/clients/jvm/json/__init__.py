"""Java that checks and decodes JSON. `strict_json` calls it."""
