"""Load, check, compile and plan a project, as the commands do."""
