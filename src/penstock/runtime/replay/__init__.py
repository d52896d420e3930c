"""Replay: dead letters are restored to records and delivered again, outside of the stream."""
