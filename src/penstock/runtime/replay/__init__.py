"""Replay: records of dead letters are restored and delivered again, outside the stream."""
