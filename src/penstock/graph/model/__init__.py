"""One aspect of one model per module: event time, masks, materialization, changes by key, topics.

These modules look at a model and its inputs, and never at the whole project.
"""
