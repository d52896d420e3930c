"""The registry of connectors. Built-in ones are loaded by name on first use; others come from entry points."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from penstock.clients.clusters import Clusters
from penstock.clients.jvm.maven import Package
from penstock.connectors.contract import Connector, Sink, Source
from penstock.connectors.on_kafka import OnKafka
from penstock.errors import PlanRefused

Role: TypeAlias = Literal["source", "sink"]
ENTRY_POINTS: Final = "penstock.connectors"


class BuiltIn(NamedTuple):
    role: Role
    type: str
    module: str
    name: str


BUILT_INS: Final = (
    BuiltIn("source", "clickhouse", "penstock.connectors.clickhouse", "ClickHouseSource"),
    BuiltIn("source", "file", "penstock.connectors.file", "FileSource"),
    BuiltIn("source", "generator", "penstock.connectors.generator", "GeneratorSource"),
    BuiltIn("source", "hybrid", "penstock.connectors.hybrid", "HybridSource"),
    BuiltIn("source", "kafka", "penstock.connectors.kafka", "KafkaSource"),
    BuiltIn("source", "postgres", "penstock.connectors.postgres", "PostgresTable"),
    BuiltIn("source", "postgres_cdc", "penstock.connectors.postgres_cdc", "PostgresCdcSource"),
    BuiltIn("source", "postgres_cdc_source", "penstock.connectors.postgres_cdc", "PostgresCdcPlugin"),
    BuiltIn("source", "topic", "penstock.connectors.topic", "TopicSource"),
    BuiltIn("sink", "blackhole", "penstock.connectors.blackhole", "BlackholeSink"),
    BuiltIn("sink", "clickhouse", "penstock.connectors.clickhouse_sink", "ClickHouseSink"),
    BuiltIn("sink", "file", "penstock.connectors.file_sink", "FileSink"),
    BuiltIn("sink", "jdbc-sink", "penstock.connectors.postgres", "JdbcSink"),
    BuiltIn("sink", "kafka", "penstock.connectors.kafka_sink", "KafkaSink"),
    BuiltIn("sink", "postgres", "penstock.connectors.postgres", "PostgresSink"),
    BuiltIn("sink", "postgres_aggregate", "penstock.connectors.postgres_aggregate", "PostgresAggregateSink"),
    BuiltIn("sink", "memory", "penstock.connectors.memory", "MemorySink"),
    BuiltIn("sink", "print", "penstock.connectors.print", "PrintSink"),
    BuiltIn("sink", "redis", "penstock.connectors.redis.sink", "RedisSink"),
    BuiltIn("sink", "s3-sink", "penstock.connectors.s3", "S3Sink"),
    BuiltIn("sink", "topic", "penstock.connectors.topic_sink", "TopicSink"),
    BuiltIn("sink", "webhook", "penstock.connectors.webhook", "WebhookSink"),
)


def types(role: Role) -> tuple[str, ...]:
    built_in = [b.type for b in BUILT_INS if b.role == role]
    return tuple(sorted({*built_in, *(name for r, name in _plugins() if r == role)}))


def find_source(type_name: str) -> type[Source] | None:
    found = _find("source", type_name)
    return found if found is not None and issubclass(found, Source) else None


def find_sink(type_name: str) -> type[Sink] | None:
    found = _find("sink", type_name)
    return found if found is not None and issubclass(found, Sink) else None


def source_from(config: Mapping[str, object], root: Path) -> Source:
    """Return the source that a manifest describes, with its paths below `root`."""
    model = find_source(str(config["type"]))
    if model is None:
        raise _unavailable(config)
    return model.model_validate(config).with_root(root)


def sink_from(config: Mapping[str, object], root: Path) -> Sink:
    """Return the sink that a manifest describes, with its paths below `root`."""
    model = find_sink(str(config["type"]))
    if model is None:
        raise _unavailable(config)
    return model.model_validate(config).with_root(root)


def open_source(config: Mapping[str, object], root: Path, clusters: Clusters) -> Source:
    """Return the source that a manifest describes, with the settings of its system."""
    found = source_from(config, root).with_settings(clusters.settings, "")
    return found.with_cluster(clusters.source) if isinstance(found, OnKafka) else found


def open_sink(config: Mapping[str, object], root: Path, clusters: Clusters, node: str) -> Sink:
    """Return the sink that a manifest describes, with the settings of its system. `node` is its id."""
    found = sink_from(config, root).with_settings(clusters.settings, node.partition(".")[2])
    return found.with_cluster(clusters.sink) if isinstance(found, OnKafka) else found


def packages(connectors: Iterable[tuple[Role, Mapping[str, Any]]]) -> tuple[Package, ...]:
    """Return the packages that Spark needs for these connectors in addition to those that come with PySpark."""
    found = [(_find(role, str(config["type"])), config) for role, config in connectors]
    return tuple(dict.fromkeys(p for model, config in found if model for p in model.packages_for(config)))


def _unavailable(config: Mapping[str, object]) -> PlanRefused:
    return PlanRefused("not-runnable-here", f"the connector `{config['type']}` is not available")


def all_connectors() -> Iterable[tuple[Role, type[Connector]]]:
    for built_in in BUILT_INS:
        found = _find(built_in.role, built_in.type)
        assert found is not None
        yield built_in.role, found


def _find(role: Role, type_name: str) -> type[Connector] | None:
    for built_in in BUILT_INS:
        if built_in.role == role and built_in.type == type_name:
            found: type[Connector] = getattr(import_module(built_in.module), built_in.name)
            return found
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name == f"{role}:{type_name}":
            plugin: type[Connector] = entry.load()
            return plugin
    return None


def _plugins() -> Iterable[tuple[str, str]]:
    for entry in entry_points(group=ENTRY_POINTS):
        role, _, name = entry.name.partition(":")
        yield role, name
