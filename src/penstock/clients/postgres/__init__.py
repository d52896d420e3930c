"""PostgreSQL: servers and connections, change data capture, and writes by COPY with one transaction per batch."""
