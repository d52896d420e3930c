"""Resources in other systems: Kafka's topics, Kafka Connect, a gateway, the schema registry. One module per system:
fetch its contents into a value, then compute the steps of a plan from that value."""
