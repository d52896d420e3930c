"""A table with the offsets up to which a Kafka topic was copied into ClickHouse."""

from collections.abc import Mapping

from penstock.clients.clickhouse.client import ClickHouse, quote_identifier


def next_offsets(server: ClickHouse, said: Mapping[str, str]) -> dict[int, int]:
    """Return the offset after the last copied record, by partition; none for an unknown topic."""
    partition, offset = quote_identifier(said["partition_column"]), quote_identifier(said["offset_column"])
    found = server.ask(
        f"SELECT toString({partition}), toString(max({offset})) FROM {quote_identifier(said['table_name'])} "
        f"WHERE {quote_identifier(said['topic_column'])} = {{topic:String}} GROUP BY {partition}",
        topic=said["topic_name"],
    )
    return {int(number): int(last) + 1 for number, last in found}
