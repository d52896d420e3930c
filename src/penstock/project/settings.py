"""The settings that pipelines take from the environment: `PENSTOCK__KAFKA_SOURCE__BROKERS` and its like."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from penstock.clients.clickhouse.server import ClickHouse, ClickHouseSink
from penstock.clients.clusters import Cluster, Clusters
from penstock.clients.kafka.cluster import KafkaCluster
from penstock.clients.kafka.schema_book import SchemaBook
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.schema_registry import Registry
from penstock.config import settings_from
from penstock.errors import Diagnostic, ProjectInvalid
from penstock.project.variables import Environ

_PREFIXES: Final = ("STREAMLING__", "PENSTOCK__")
"""Later ones win."""
_DEFAULTS: Final[Mapping[str, str]] = {
    "BROKERS": "localhost:9092",
    "SECURITY_PROTOCOL": "plaintext",
    "SCHEMA_REGISTRY_URL": "http://localhost:18081",
}

_CLICKHOUSE: Final[Mapping[str, str]] = {"URL": "url", "USER": "user", "PASSWORD": "password", "DATABASE": "database"}


def pipeline_clusters(environ: Environ, *, on_kafka: bool) -> Clusters:
    """Where the sources of a pipeline read, and where its sinks write. Kafka is left out where no node is on it."""
    server = PostgresServer().changed(_database(_section(environ, "POSTGRES_SINK")))
    return Clusters(
        _cluster(environ, "KAFKA_SOURCE") if on_kafka else None,
        _cluster(environ, "KAFKA_SINK") if on_kafka else None,
        postgres=server,
        postgres_of={name: server.changed(said) for name, said in _databases(environ).items()},
        clickhouse_sink=_clickhouse_sink(environ),
        settings=settings_from(environ),
    )


_DATABASE: Final[Mapping[str, str]] = {
    "HOST": "host",
    "PORT": "port",
    "USER": "user",
    "PASS": "password",
    "DB": "database",
    "SSLMODE": "sslmode",
    "SSLROOTCERT": "sslrootcert",
}


def _database(said: Mapping[str, str]) -> dict[str, str]:
    return {_DATABASE[name]: value for name, value in said.items() if name in _DATABASE}


def _databases(environ: Environ) -> dict[str, dict[str, str]]:
    """Databases of single sinks, by the name of the sink in capitals."""
    found: dict[str, dict[str, str]] = {}
    for name, value in _section(environ, "POSTGRES_SINK_CONNECTIONS").items():
        if (said := re.fullmatch("(.+)__([A-Z]+)", name)) and said[2] in _DATABASE:
            found.setdefault(said[1], {})[_DATABASE[said[2]]] = value
    return found


def _clickhouse_sink(environ: Environ) -> ClickHouseSink:
    said = _section(environ, "CLICKHOUSE_SINK")
    words = {field: said[word] for word, field in _CLICKHOUSE.items() if word in said}
    packing = {"compression": said["COMPRESSION"]} if "COMPRESSION" in said else {}
    _only(said, "COMPRESSION", lambda value: value in ("none", "gzip", "zstd", "lz4"), "none, gzip, zstd, lz4")
    _only(said, "COMPRESSION_LEVEL", lambda value: value.isdecimal() and int(value) < 10, "0 to 9")
    _only(said, "BATCH_SIZE", lambda value: value.isdecimal() and int(value) > 0, "a number of rows")
    numbers = {word.lower(): int(said[word]) for word in ("COMPRESSION_LEVEL", "BATCH_SIZE") if word in said}
    return ClickHouseSink(ClickHouse(**words), **packing, **numbers)  # type: ignore[arg-type]


def _only(said: Mapping[str, str], word: str, fits: Callable[[str], bool], allowed: str) -> None:
    if word in said and not fits(said[word]):
        setting = f"PENSTOCK__CLICKHOUSE_SINK__{word}"
        text = f"`{said[word]}` is none of: {allowed}"
        raise ProjectInvalid([Diagnostic("invalid-value", text, path=setting, hint="change the variable")])


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
