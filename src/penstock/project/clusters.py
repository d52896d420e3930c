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


def _kafka_cluster(settings: KafkaSettings) -> Cluster:
    side = "KAFKA_SOURCE" if isinstance(settings, KafkaSourceSettings) else "KAFKA_SINK"
    kafka = KafkaCluster(
        servers=settings.brokers,
        protocol=settings.security_protocol,
        mechanism=settings.sasl_mechanism,
        username=settings.sasl_username,
        password=reveal_secret(settings.sasl_password),
        ca=settings.ssl_ca_location,
        certificate=settings.ssl_certificate_location,
        key=settings.ssl_key_location,
        config={"client.id": settings.client_id} if settings.client_id else {},
    )
    registry = Registry(
        tuple(url.strip() for url in settings.schema_registry_url.split(",")),
        settings.schema_registry_username,
        reveal_secret(settings.schema_registry_password),
        said_in=f"PENSTOCK__{side}__SCHEMA_REGISTRY_URL",
    )
    group = settings.consumer_group_id if isinstance(settings, KafkaSourceSettings) else None
    return Cluster(kafka, SchemaCache(registry), group)
