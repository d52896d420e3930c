"""Dead letters as files and as Kafka records."""
