"""The functions of each dialect, as tables of data."""
