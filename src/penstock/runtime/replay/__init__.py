"""Dead letters that a user asks to process again: their records are restored and delivered beside the stream."""
