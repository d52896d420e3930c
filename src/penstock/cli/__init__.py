"""The command `penstock`: arguments in, the line called, the result shown."""
