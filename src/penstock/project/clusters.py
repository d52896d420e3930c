"""The systems of pipelines, and the databases of projects, as the application's settings name them."""

from dataclasses import replace

from pydantic import SecretStr

from penstock.clients.clickhouse.client import ClickHouse, ClickHouseSinkServer, ClickHouseSourceServer
from penstock.clients.clusters import Cluster, Clusters
from penstock.clients.http.auth import split_credentials
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.registry.client import Registry
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.settings import (
    ClickHouseSinkSettings,
    ClickHouseSourceSettings,
    KafkaSettings,
    KafkaSourceSettings,
    PostgresConnection,
    Settings,
)


def pipeline_clusters(settings: Settings, *, on_kafka: bool, writes_kafka: bool = False) -> Clusters:
    """The systems that the sources of a pipeline read and its sinks write, without Kafka if no node uses it. Dead
    letters go to the Kafka that the pipeline writes or that settings name, else to the one that it reads.
    """
    source = _kafka_cluster(settings.kafka_source) if on_kafka else None
    named = writes_kafka or "brokers" in settings.kafka_sink.model_fields_set
    written = _kafka_cluster(settings.kafka_sink) if source is not None and named else source
    return with_databases(Clusters(source, written), settings)


def with_databases(clusters: Clusters, settings: Settings) -> Clusters:
    """The systems with the databases from the settings. Projects and pipelines connect to them in the same way."""
    server = _postgres_server(PostgresServer(), settings.postgres_sink)
    return replace(
        clusters,
        postgres=server,
        postgres_of={name: _postgres_server(server, said) for name, said in settings.postgres_sink_connections.items()},
        clickhouse_source=_clickhouse_source(settings.clickhouse_source),
        clickhouse_sink=_clickhouse_sink(settings.clickhouse_sink),
        settings=settings,
    )


def _clickhouse_source(said: ClickHouseSourceSettings) -> ClickHouseSourceServer:
    usual = ClickHouseSourceServer().server
    server = replace(_clickhouse(said), settings=usual.settings, timeout_secs=said.query_timeout_sec)
    return ClickHouseSourceServer(server, said.page_size)


def _clickhouse_sink(said: ClickHouseSinkSettings) -> ClickHouseSinkServer:
    return ClickHouseSinkServer(_clickhouse(said), said.compression, said.compression_level, said.batch_size)


def _clickhouse(said: ClickHouseSourceSettings | ClickHouseSinkSettings) -> ClickHouse:
    """The server. A user and a password in its address override the separate settings."""
    url, username, password = split_credentials(said.url)
    return ClickHouse(url, username or said.user, password or said.password.get_secret_value(), said.database)


def _postgres_server(server: PostgresServer, said: PostgresConnection) -> PostgresServer:
    """The server, with overrides."""
    given = {
        "host": said.host,
        "port": said.port,
        "user": said.user,
        "password": _reveal_secret(said.pass_),
        "database": said.db,
        "sslmode": said.sslmode,
        "sslrootcert": said.sslrootcert,
    }
    return server.with_settings({name: value for name, value in given.items() if value is not None})


def _kafka_cluster(said: KafkaSettings) -> Cluster:
    side = "KAFKA_SOURCE" if isinstance(said, KafkaSourceSettings) else "KAFKA_SINK"
    kafka = KafkaCluster(
        servers=said.brokers,
        protocol=said.security_protocol,
        mechanism=said.sasl_mechanism,
        username=said.sasl_username,
        password=_reveal_secret(said.sasl_password),
        ca=said.ssl_ca_location,
        certificate=said.ssl_certificate_location,
        key=said.ssl_key_location,
        config={"client.id": said.client_id} if said.client_id else {},
    )
    registry = Registry(
        tuple(url.strip() for url in said.schema_registry_url.split(",")),
        said.schema_registry_username,
        _reveal_secret(said.schema_registry_password),
        said_in=f"PENSTOCK__{side}__SCHEMA_REGISTRY_URL",
    )
    group = said.consumer_group_id if isinstance(said, KafkaSourceSettings) else None
    return Cluster(kafka, SchemaCache(registry), group)


def _reveal_secret(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
