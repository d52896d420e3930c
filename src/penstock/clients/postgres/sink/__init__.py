"""Rows into PostgreSQL: COPY into a staging table, one transaction per batch, and a ledger."""
