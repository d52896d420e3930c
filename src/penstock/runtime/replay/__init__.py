"""Replay: records of dead letters are restored, and processed again outside the stream."""
