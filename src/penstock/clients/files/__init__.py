"""Files and directories: formats, columns, text rows, and batches that are published as a whole."""
