"""ClickHouse: an HTTP client, its types and tables, and the transfer of rows in both directions."""
