"""The settings of the application."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr

from penstock.config import FlushInterval, FrozenModel, Names, SslMode, TextPattern, fold_case


class PrintSinkSettings(FrozenModel):
    sample_every: int = Field(1, ge=1)
    """Print only every Nth row."""


class HttpSettings(FrozenModel):
    """Default settings of requests. A node can override them."""

    trigger_max_count: int = Field(2000, ge=1)
    """The maximum number of rows per request."""
    operator_timeout_sec: float = Field(300, gt=0)
    """How long to wait for an answer, in seconds."""
    buffer_size: int = Field(25, ge=1)
    """The maximum number of concurrent requests of a worker."""


def _to_upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class KafkaSettings(FrozenModel):
    """A Kafka cluster and its schema registry."""

    brokers: str = "localhost:9092"
    """The broker addresses, separated by commas."""
    security_protocol: Annotated[
        Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"], BeforeValidator(fold_case)
    ] = "plaintext"
    """`plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`."""
    sasl_mechanism: Annotated[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], BeforeValidator(_to_upper)] | None = (
        None
    )
    """`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    sasl_username: str | None = None
    """The user name."""
    sasl_password: SecretStr | None = None
    """The password. It is never shown."""
    ssl_ca_location: str | None = None
    """The file with the trusted CA certificates of the broker."""
    ssl_certificate_location: str | None = None
    """The file with the client certificate."""
    ssl_key_location: str | None = None
    """The file with the key of the client certificate."""
    schema_registry_url: str = "http://localhost:18081"
    """The address, or several separated by commas."""
    schema_registry_username: str | None = None
    """The user of the registry."""
    schema_registry_password: SecretStr | None = None
    """The password of the registry. It is never shown."""
    client_id: str | None = None
    """The client id in the log of the broker."""


class KafkaSourceSettings(KafkaSettings):
    consumer_group_id: str | None = None
    """The prefix of consumer groups. A pipeline without checkpoint and stored offsets resumes from the offsets of these
    groups."""
    lag_report_interval_ms: int = Field(60_000, ge=0)
    consumer_fetch_timeout_sec: float = Field(60, gt=0)
    stall_watchdog_timeout_sec: float = Field(60, gt=0)


class PostgresConnection(FrozenModel):
    """Connection settings of one sink. Missing values come from those for all sinks."""

    host: str | None = None
    """The server. Default: `127.0.0.1`."""
    port: int | None = Field(None, ge=1, le=65535)
    """The port. Default: 5432."""
    user: str | None = None
    """The user. Default: `graph-node`."""
    pass_: SecretStr | None = Field(None, alias="pass")
    """The password. It is never shown."""
    db: str | None = None
    """The database. Default: `postgres`."""
    sslmode: SslMode | None = None
    """The TLS mode. Default: `disable`."""
    sslrootcert: str | None = None
    """The file with the trusted CA certificates of the server."""


class PostgresSinkSettings(PostgresConnection):
    batch_flush_interval: FlushInterval | None = None
    """The batch interval of sinks that do not set one. Default: a batch begins when the previous one ends."""
    batch_size: int = Field(100, ge=1)
    statement_timeout_secs: int = Field(60, ge=0)
    pool_acquire_timeout_secs: int = Field(30, ge=0)
    pool_idle_timeout_secs: int = Field(600, ge=0)
    pool_max_lifetime_secs: int = Field(1800, ge=0)


class PostgresStoreSettings(FrozenModel):
    """The database of the state store."""

    host: str = "localhost"
    port: int = Field(5432, ge=1, le=65535)
    db: str = "streamling"
    user: str = "graph-node"
    password: SecretStr = SecretStr("")
    sslmode: SslMode = "require"
    max_connections: int | None = Field(None, ge=1)
    acquire_timeout_secs: int | None = Field(None, ge=0)


class StatePostgres(PostgresStoreSettings):
    state_schema_name: str = "streamling"
    state_table_name: str = "state"


class StateSqlite(FrozenModel):
    database_path: str | None = None
    """The file, relative to the pipeline's directory. Default: `.penstock/state.db`."""
    max_connections: int | None = Field(None, ge=1)
    state_table_name: str = "state"


class StateBackend(FrozenModel):
    backend_type: Literal["Sqlite", "InMemory", "Postgres"] = "Sqlite"
    sqlite: StateSqlite = StateSqlite()
    postgres: StatePostgres = StatePostgres()


class DynamicTablePostgres(PostgresStoreSettings):
    dt_schema_name: str = "streamling"
    cache_enabled: bool = False
    cache_refresh_debounce_ms: int | None = Field(None, ge=0)


class DynamicTableBackend(FrozenModel):
    postgres: DynamicTablePostgres = DynamicTablePostgres()
    max_batch_size: int = Field(1000, ge=1)


class ClickHouseSettings(FrozenModel):
    url: str = "http://localhost:8123"
    user: str = "default"
    password: SecretStr = SecretStr("")
    database: str = "default"


class ClickHouseSourceSettings(ClickHouseSettings):
    page_size: int = Field(10_000_000, ge=1)
    sort_key_range: int = Field(1_000_000, ge=1)
    block_range: int | None = Field(None, ge=1)
    """An alias of `sort_key_range`."""
    query_timeout_sec: float = Field(60, gt=0)


class ClickHouseSinkSettings(ClickHouseSettings):
    compression: Literal["none", "gzip", "zstd", "lz4"] = "none"
    """The compression of requests, for sinks that do not set one: `none`, `gzip`, `zstd` or `lz4`."""
    compression_level: int = Field(6, ge=0, le=9)
    """The compression level of `gzip`."""
    batch_size: int = Field(100_000, ge=1)
    """The maximum number of rows per insert."""
    batch_flush_interval: FlushInterval | None = None
    """The batch interval of sinks that do not set one. Default: a batch begins when the previous one ends."""


class WasmScript(FrozenModel):
    runtime_wasm_file_path: str | None = None
    parallelism: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=0)


class OpenTelemetryMetrics(FrozenModel):
    ingestion_endpoint: str = "none"
    endpoint_protocol: str = ""
    batch_interval_secs: int = Field(15, ge=1)
    global_tags: str = ""
    metric_deny_list: Names = ("kafka_consumer.msg_decode_latency", "kafka_producer.msg_encode_latency")


class LiveDataInspect(FrozenModel):
    records_per_topology_node: int = Field(15, ge=1)
    refresh_in_secs: int = Field(30, ge=1)


_CONNECTION: Final = frozenset({"host", "port", "user", "pass", "db", "sslmode", "sslrootcert"})


def connection_name(sink: str) -> str:
    """Return the name of a sink as it is used in settings of single connections."""
    return re.sub("[^A-Z0-9]", "_", sink.upper())


def _flatten_connections(tree: Any) -> Any:
    """Return connections by the name of a sink in capitals; a name with `__` in it has become two levels.

    Settings under several spellings of a name are merged; later ones win.
    """
    if not isinstance(tree, dict):
        return tree
    found: dict[str, Any] = {}

    def walk(name: str, value: Any) -> None:
        deeper = isinstance(value, dict) and value and all(isinstance(below, dict) for below in value.values())
        if not deeper or _CONNECTION & value.keys():
            spelt = connection_name(name)
            both = isinstance(value, dict) and isinstance(found.get(spelt), dict)
            found[spelt] = {**found[spelt], **value} if both else value
            return
        for inner, below in value.items():
            walk(f"{name}__{inner}", below)

    for name, value in tree.items():
        walk(name, value)
    return found


def _lower_keys(tree: Any) -> Any:
    """Merge keys that differ only by case: names of variables have capitals, those in files may not. Later ones win."""
    return {str(name).lower(): value for name, value in tree.items()} if isinstance(tree, dict) else tree


_APPLICATION: Final = TextPattern(r"[^/\x00-\x1f]+", "it has at least one character, and no `/` or control character")


class Settings(FrozenModel):
    """Settings of the application, from a file and from the environment, which overrides the file.

    A property is named `PENSTOCK__A__B` there. The same name with the prefix `STREAMLING__` is read too, with lower
    precedence.
    """

    application_id: Annotated[str, _APPLICATION] | None = None
    """Separates the state of several deployments of one pipeline."""
    pipeline_definition_location: str = "./pipeline.yaml"
    """The pipeline, if the command line names none."""
    job_mode: bool = False
    """Whether the run ends by itself. Every source must be bounded then."""
    enforce_primary_keys: bool = False
    """Whether every node must have a primary key."""
    num_records_before_stop: int | None = Field(None, ge=1)
    """The number of rows of a print sink after which the run ends."""
    print_sink: PrintSinkSettings = PrintSinkSettings()
    external_http_handler: HttpSettings = HttpSettings()
    http_secret_header: Annotated[dict[str, str], BeforeValidator(_lower_keys)] = {}
    """The names of headers, by the `secret_name` of a node (not case-sensitive)."""
    http_secret_value: Annotated[dict[str, SecretStr], BeforeValidator(_lower_keys)] = Field({}, repr=False)
    """The values of those headers."""
    kafka_source: KafkaSourceSettings = KafkaSourceSettings()
    kafka_sink: KafkaSettings = KafkaSettings()
    postgres_sink: PostgresSinkSettings = PostgresSinkSettings()
    postgres_sink_connections: Annotated[dict[str, PostgresConnection], BeforeValidator(_flatten_connections)] = {}
    """Connection settings of single sinks, by name."""
    clickhouse_source: ClickHouseSourceSettings = ClickHouseSourceSettings()
    clickhouse_sink: ClickHouseSinkSettings = ClickHouseSinkSettings()
    log_format: Literal["text", "json"] = "text"
    """The format of log lines on stderr: text (with time and level unless stderr is a terminal), or one JSON object per
    line."""
    record_batch_size: int = Field(1000, ge=1)
    record_batch_interval_ms: int = Field(100, ge=0)
    internal_buffer_size: int = Field(10, ge=1)
    checkpoint_interval_sec: float = Field(5, gt=0)
    """The shortest time between lines `Epoch finalized: 1` of `run`, if it is not on a terminal. Progress is saved with
    every batch."""
    drain_policy: Literal["auto", "drain", "fast"] = "auto"
    """What a stop waits for. `auto`: current batches; `drain`: also those of real-time queries, which are
    long; `fast`: none, except those of queries that end by themselves."""
    preview_tolerant_mode: bool = False
    state_backend: StateBackend = StateBackend()
    dynamic_table_backend: DynamicTableBackend = DynamicTableBackend()
    wasm_script: WasmScript = WasmScript()
    plugin: dict[str, Any] = Field({}, repr=False)
    open_telemetry_metrics: OpenTelemetryMetrics = OpenTelemetryMetrics()
    live_data_inspect_enabled: bool = False
    live_data_inspect: LiveDataInspect = LiveDataInspect()
    admin_api_port: int = Field(3000, ge=1, le=65535)
    test_settings: dict[str, Any] = {}
    shutdown_budget_secs: float = Field(25, gt=0)
    """The maximum time for a stop, in seconds. The next start replays unfinished batches."""
    plugin_drain_budget_secs: float = Field(60, gt=0)
    backpressure_event_threshold_ms: int = Field(100, ge=0)
