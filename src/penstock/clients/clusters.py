"""The systems that sources read from and sinks write to. A manifest does not name them: it is the same everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.clients.clickhouse.server import ClickHouseSink
from penstock.clients.connect import Connect
from penstock.clients.kafka.cluster import KafkaCluster
from penstock.clients.kafka.schema_book import SchemaBook


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster, what the registry of its schemas has said, and what its groups of consumers begin with."""

    kafka: KafkaCluster
    schemas: SchemaBook | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Clusters:
    """Where sources read, and where sinks write. None where nothing is said: topics are directories then.

    `connect` are clusters of Kafka Connect, by name.
    """

    source: Cluster | None = None
    sink: Cluster | None = None
    connect: Mapping[str, Connect] = field(default_factory=dict)
    clickhouse_sink: ClickHouseSink | None = None


EMBEDDED: Final = Clusters()
