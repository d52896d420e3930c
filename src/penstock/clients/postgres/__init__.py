"""PostgreSQL, as sinks write it: rows by COPY from where they are, into a table by one transaction a batch."""
