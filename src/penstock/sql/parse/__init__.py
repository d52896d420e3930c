"""From text to a tree, in the dialects that people write."""
