"""The linked graph of a project or pipeline: references resolved, nodes ordered, columns known."""
