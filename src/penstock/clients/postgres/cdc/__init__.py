"""Change data capture from PostgreSQL: publications, slots, snapshots, and the messages of pgoutput."""
