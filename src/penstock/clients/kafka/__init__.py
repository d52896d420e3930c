"""Kafka: how a cluster is reached, and what is asked of it beside reading and writing."""
