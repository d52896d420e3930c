"""The Kafka clusters of pipelines, as the application's settings name them."""

from penstock.clients.clusters import Cluster, Clusters
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.registry.client import Registry
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.config import reveal_secret
from penstock.settings import KafkaSettings, KafkaSourceSettings, Settings


def pipeline_clusters(settings: Settings, *, on_kafka: bool, writes_kafka: bool = False) -> Clusters:
    """The systems that the sources of a pipeline read and its sinks write, without Kafka if no node uses it. Dead
    letters go to the Kafka that the pipeline writes or that settings name, else to the one that it reads.
    """
    source = _kafka_cluster(settings.kafka_source) if on_kafka else None
    named = writes_kafka or "brokers" in settings.kafka_sink.model_fields_set
    written = _kafka_cluster(settings.kafka_sink) if source is not None and named else source
    return Clusters(source, written, settings=settings)


def _kafka_cluster(said: KafkaSettings) -> Cluster:
    side = "KAFKA_SOURCE" if isinstance(said, KafkaSourceSettings) else "KAFKA_SINK"
    kafka = KafkaCluster(
        servers=said.brokers,
        protocol=said.security_protocol,
        mechanism=said.sasl_mechanism,
        username=said.sasl_username,
        password=reveal_secret(said.sasl_password),
        ca=said.ssl_ca_location,
        certificate=said.ssl_certificate_location,
        key=said.ssl_key_location,
        config={"client.id": said.client_id} if said.client_id else {},
    )
    registry = Registry(
        tuple(url.strip() for url in said.schema_registry_url.split(",")),
        said.schema_registry_username,
        reveal_secret(said.schema_registry_password),
        said_in=f"PENSTOCK__{side}__SCHEMA_REGISTRY_URL",
    )
    group = said.consumer_group_id if isinstance(said, KafkaSourceSettings) else None
    return Cluster(kafka, SchemaCache(registry), group)
