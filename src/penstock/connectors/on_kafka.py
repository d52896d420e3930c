"""The base class of sources and sinks that use Kafka topics."""

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import PrivateAttr

from penstock.clients.clusters import Cluster
from penstock.clients.jvm.packages import KAFKA
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.connectors.contract import Connector
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from penstock.clients.rows.topic_names import TopicName


class OnKafka(Connector):
    """A connector with a topic in the project's Kafka cluster, which the runtime uses too (dead letters, offsets)."""

    packages = KAFKA
    located_by = ("topic",)
    own_labels: ClassVar = frozenset({"topic"})
    if TYPE_CHECKING:
        topic: TopicName
    _cluster: Cluster | None = PrivateAttr(None)

    def with_cluster(self, cluster: Cluster | None) -> Self:
        """Return the same connector with the cluster of its topic, and the schema registry."""
        found = self.model_copy()
        found._cluster = cluster
        return found

    @property
    def _kafka(self) -> KafkaCluster:
        assert self._cluster is not None
        return self._cluster.kafka

    @property
    def _book(self) -> SchemaCache:
        book = self._cluster.schemas if self._cluster is not None else None
        if book is None:
            hint = "name it in `runtime.schema_registry`"
            raise ServiceError("schema-unknown", f"`{self.topic}` is Avro, and there is no schema registry", hint=hint)
        return book
