"""Links the project format: sources, models, exposures and data tests become nodes of the graph.

Modules here may use the whole project; what concerns one model is in `graph.model`.
"""
