"""The functions of each dialect: tables of data."""
