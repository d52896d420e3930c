"""A table that tells how far a topic of Kafka was copied into ClickHouse."""

from collections.abc import Mapping

from penstock.clients.clickhouse.client import ClickHouse, name


def next_offsets(server: ClickHouse, said: Mapping[str, str]) -> dict[int, int]:
    """The offset behind the last record that was copied, by partition; nothing for a topic that the table does not
    know."""
    partition, offset = name(said["partition_column"]), name(said["offset_column"])
    found = server.ask(
        f"SELECT toString({partition}), toString(max({offset})) FROM {name(said['table_name'])} "
        f"WHERE {name(said['topic_column'])} = {{topic:String}} GROUP BY {partition}",
        topic=said["topic_name"],
    )
    return {int(number): int(last) + 1 for number, last in found}
