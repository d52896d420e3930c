"""The command `penstock`: reads arguments, calls the workflow and shows the result."""
