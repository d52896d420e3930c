"""The Spark session: its process and settings, shipped code, its log, and the translation of its errors."""
