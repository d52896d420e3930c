"""What other systems have and what they are to get: Kafka's topics, Kafka Connect, a gateway, the schema registry.

One module per system: fetch what it has into a value, then make the steps of a plan out of that value.
"""
