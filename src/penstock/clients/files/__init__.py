"""Files and directories: formats, columns, rows of text, and batches that appear as a whole."""
