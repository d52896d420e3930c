"""Links the project format: sources, models, exposures and data tests become nodes of the graph.

Here is what knows the whole project and several kinds of its elements; what concerns one model is in `graph.model`.
"""
