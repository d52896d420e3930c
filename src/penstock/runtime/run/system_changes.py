"""Carries out the steps of a plan that change other systems: topics, schemas, connectors, virtual topics."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.clients.clusters import Clusters
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import ServiceError
from penstock.manifest.resources import ConnectorSpec, GatewayRule, SchemaSpec, TopicSpec
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.systems.gateway import interceptors, own_interceptors, registry_of
from penstock.plan.systems.kafka_connect import resolve_settings
from penstock.plan.systems.schemas import schema_text
from penstock.plan.systems.topics import wanted_config
from penstock.project.yaml.variables import Environ


@dataclass(frozen=True, slots=True)
class SystemChanges:
    """Creates, changes and deletes a project's objects in other systems. Each change may be repeated."""

    clusters: Clusters
    place: ProjectPlace
    environ: Environ

    def create_topic(self, topic: TopicSpec) -> None:
        if topic.on_kafka:
            partitions, replication_factor = topic.partitions or -1, topic.replication_factor or -1
            self._admin().create(topic.name, partitions, replication_factor, wanted_config(topic))
            return
        directory = self.place.topics / topic.name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError("not-writable", f"cannot create {directory}: {error.strerror}") from error

    def change_topic(self, topic: TopicSpec, partitions: int | None, config: Mapping[str, str]) -> None:
        if partitions is not None:
            self._admin().add_partitions(topic.name, partitions)
        if config:
            self._admin().set_config(topic.name, config)

    def put_schema(self, schema: SchemaSpec) -> None:
        """Register a schema as the latest of its subject, and set its compatibility level."""
        assert self.clusters.source is not None
        book = self.clusters.source.schemas
        assert book is not None
        if schema.compatibility is not None:
            book.registry.set_compatibility(schema.subject, schema.compatibility)
        book.register(schema.subject, schema_text(schema), schema.schema_type)

    def put_connector(self, connector: ConnectorSpec) -> None:
        """Create or change a connector. Its secrets are resolved here and stored nowhere."""
        self.clusters.connect[str(connector.cluster)].put(connector.name, resolve_settings(connector, self.environ))

    def restart_connector(self, connector: ConnectorSpec) -> None:
        self.clusters.connect[str(connector.cluster)].restart(connector.name)

    def delete_connector(self, name: str, cluster: str) -> None:
        """Delete a connector of the project. If the project no longer names the cluster, nothing is done."""
        if cluster in self.clusters.connect:
            self.clusters.connect[cluster].delete(name)

    def put_virtual_topic(self, rule: GatewayRule) -> None:
        """Create or change a virtual topic, and delete interceptors that it no longer has."""
        gateway = self.clusters.gateway
        assert gateway is not None
        wanted = interceptors(rule, registry_of(self.clusters))
        gateway.put(rule.virtual_topic, rule.physical_topic, wanted)
        stale = [name for name in own_interceptors(rule.virtual_topic) if name not in wanted]
        if stale:
            gateway.delete(gateway.cluster, None, stale)

    def delete_virtual_topic(self, name: str, cluster: str) -> None:
        """Delete a virtual topic of the project. If the project no longer names a gateway, nothing is done."""
        if self.clusters.gateway is not None:
            self.clusters.gateway.delete(cluster, name, list(own_interceptors(name)))

    def _admin(self) -> KafkaAdmin:
        assert self.clusters.sink is not None
        return KafkaAdmin(self.clusters.sink.kafka)
