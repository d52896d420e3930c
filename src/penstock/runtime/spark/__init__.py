"""The Spark session: its process and settings, packages of code, its log, and its errors in our words."""
