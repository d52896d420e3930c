"""The systems that hold topics: Kafka, its schema registry, Kafka Connect, a gateway. A manifest does not name them.

All other systems belong to their connectors, which reach them by themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.clients.conduktor import ConduktorGateway
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.kafka_connect import Connect
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.settings import Settings


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster, the cache of its schema registry, and the prefix of its consumer groups."""

    kafka: KafkaCluster
    schemas: SchemaCache | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters whose topics are read and written; without them, topics are directories.

    `connect` are Kafka Connect clusters, by name; `gateway` serves virtual topics. `settings` are those of the
    application, in which connectors find their own systems.
    """

    source: Cluster | None = None
    sink: Cluster | None = None
    connect: Mapping[str, Connect] = field(default_factory=dict)
    gateway: ConduktorGateway | None = None
    settings: Settings = field(default_factory=Settings, repr=False)

    def resolve_schema(self, number: int) -> bool:
        """Ask the source's registry for a schema that a query lacked. Returns whether there is such a registry."""
        if self.source is None or self.source.schemas is None:
            return False
        self.source.schemas.resolve_schema(number)
        return True


EMBEDDED: Final = Clusters()
