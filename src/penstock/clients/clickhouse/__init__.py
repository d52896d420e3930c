"""ClickHouse: a server asked over HTTP, its types and tables, and rows on their way into one or out of it."""
