"""The systems that sources read from and sinks write to. A manifest does not name them: it is the same everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from penstock.clients.clickhouse.client import ClickHouseSinkServer, ClickHouseSourceServer
from penstock.clients.conduktor import ConduktorGateway
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.kafka_connect import Connect
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.settings import Settings, connection_name


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster, what the registry of its schemas has said, and what its groups of consumers begin with."""

    kafka: KafkaCluster
    schemas: SchemaCache | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Clusters:
    """Where sources read, and where sinks write. None where nothing is said: topics are directories then.

    `connect` are clusters of Kafka Connect, by name; `gateway` is what serves virtual topics. `postgres` is the
    database that sinks write, unless `postgres_of` has one for a sink, whose name is in capitals there. `settings` are
    those of the application itself.
    """

    source: Cluster | None = None
    sink: Cluster | None = None
    connect: Mapping[str, Connect] = field(default_factory=dict)
    gateway: ConduktorGateway | None = None
    postgres: PostgresServer = field(default_factory=PostgresServer)
    postgres_of: Mapping[str, PostgresServer] = field(default_factory=dict)
    clickhouse_source: ClickHouseSourceServer | None = None
    clickhouse_sink: ClickHouseSinkServer | None = None
    settings: Settings = field(default_factory=Settings, repr=False)

    def resolve_schema(self, failure: str) -> bool:
        """Whether something failed for a schema of a record that it did not know, and that is known now."""
        book = self.source.schemas if self.source is not None else None
        return book is not None and book.resolve_schema(failure)

    def narrow_to_sink(self, node: str) -> Self:
        """The systems as one sink sees them."""
        name = connection_name(node.partition(".")[2])
        return replace(self, postgres=self.postgres_of.get(name, self.postgres))


EMBEDDED: Final = Clusters()
