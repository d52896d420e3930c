"""Changes out of PostgreSQL: publications, slots, snapshots, and the messages of pgoutput."""
