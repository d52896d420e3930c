"""The settings that pipelines take from the environment: `PENSTOCK__KAFKA_SOURCE__BROKERS` and its like."""

from collections.abc import Mapping
from typing import Final

from penstock.clients.clusters import Cluster, Clusters
from penstock.clients.kafka.cluster import KafkaCluster
from penstock.clients.kafka.schema_book import SchemaBook
from penstock.clients.schema_registry import Registry
from penstock.config import settings_from
from penstock.project.variables import Environ

_PREFIXES: Final = ("STREAMLING__", "PENSTOCK__")
"""Later ones win."""
_DEFAULTS: Final[Mapping[str, str]] = {
    "BROKERS": "localhost:9092",
    "SECURITY_PROTOCOL": "plaintext",
    "SCHEMA_REGISTRY_URL": "http://localhost:18081",
}


def pipeline_clusters(environ: Environ) -> Clusters:
    """Where the Kafka sources of a pipeline read, where its Kafka sinks write, and what else the environment says."""
    source, sink = _cluster(environ, "KAFKA_SOURCE"), _cluster(environ, "KAFKA_SINK")
    return Clusters(source, sink, settings=settings_from(environ))


def _cluster(environ: Environ, section: str) -> Cluster:
    said = {**_DEFAULTS, **_section(environ, section)}
    kafka = KafkaCluster(
        servers=said["BROKERS"],
        protocol=said["SECURITY_PROTOCOL"],
        mechanism=said.get("SASL_MECHANISM"),
        username=said.get("SASL_USERNAME"),
        password=said.get("SASL_PASSWORD"),
        ca=said.get("SSL_CA_LOCATION"),
        certificate=said.get("SSL_CERTIFICATE_LOCATION"),
        key=said.get("SSL_KEY_LOCATION"),
        config={"client.id": said["CLIENT_ID"]} if "CLIENT_ID" in said else {},
    )
    registry = Registry(
        tuple(url.strip() for url in said["SCHEMA_REGISTRY_URL"].split(",")),
        said.get("SCHEMA_REGISTRY_USERNAME"),
        said.get("SCHEMA_REGISTRY_PASSWORD"),
    )
    return Cluster(kafka, SchemaBook(registry), said.get("CONSUMER_GROUP_ID"))


def _section(environ: Environ, section: str) -> dict[str, str]:
    """The settings of a section, by name. An empty one says nothing."""
    return {
        name.removeprefix(f"{prefix}{section}__"): value
        for prefix in _PREFIXES
        for name, value in environ.items()
        if name.startswith(f"{prefix}{section}__") and value
    }
