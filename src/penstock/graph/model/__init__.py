"""One aspect of one model per module: event time, masks, materialization, changes by key, topics.

These modules use a model and its inputs, never the whole project.
"""
