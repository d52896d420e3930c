"""Kafka: connection settings, administration, and the decoding of records."""
