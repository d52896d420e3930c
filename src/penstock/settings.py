"""The application's own settings."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, SecretStr

from penstock.config import FlushInterval, FrozenModel, Names, SslMode, TextPattern


class PrintSinkSettings(FrozenModel):
    sample_every: int = Field(1, ge=1)
    """Print only every Nth row."""


class HttpSettings(FrozenModel):
    """How requests are sent, unless a node says otherwise."""

    trigger_max_count: int = Field(2000, ge=1)
    """Rows of a request."""
    operator_timeout_sec: float = Field(300, gt=0)
    """How long an answer is waited for."""
    buffer_size: int = Field(25, ge=1)
    """Requests of a worker that are under way at a time."""


def _to_lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _to_upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


class KafkaSettings(FrozenModel):
    """A cluster, and the registry of its schemas."""

    brokers: str = "localhost:9092"
    """Addresses, with commas between them."""
    security_protocol: Annotated[
        Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"], BeforeValidator(_to_lower)
    ] = "plaintext"
    """`plaintext`, `ssl`, `sasl_plaintext` or `sasl_ssl`."""
    sasl_mechanism: Annotated[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], BeforeValidator(_to_upper)] | None = (
        None
    )
    """`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    sasl_username: str | None = None
    """The user."""
    sasl_password: SecretStr | None = None
    """The password; never shown."""
    ssl_ca_location: str | None = None
    """A file with the certificate that the broker's is signed with."""
    ssl_certificate_location: str | None = None
    """A file with our own certificate."""
    ssl_key_location: str | None = None
    """A file with its key."""
    schema_registry_url: str = "http://localhost:18081"
    """One address, or several with commas between them."""
    schema_registry_username: str | None = None
    """The user there."""
    schema_registry_password: SecretStr | None = None
    """The password there; never shown."""
    client_id: str | None = None
    """What the broker calls us in its log."""


class KafkaSourceSettings(KafkaSettings):
    consumer_group_id: str | None = None
    """What the groups of consumers begin with. A pipeline that has neither checkpoint nor offsets goes on by them."""
    lag_report_interval_ms: int = Field(60_000, ge=0)
    consumer_fetch_timeout_sec: float = Field(60, gt=0)
    stall_watchdog_timeout_sec: float = Field(60, gt=0)


class PostgresConnection(FrozenModel):
    """What is said of a database; what is not is that of all sinks."""

    host: str | None = None
    """The server; `127.0.0.1` if nobody says another."""
    port: int | None = Field(None, ge=1, le=65535)
    """Its port; 5432."""
    user: str | None = None
    """The user; `graph-node`."""
    pass_: SecretStr | None = Field(None, alias="pass")
    """The password; never shown."""
    db: str | None = None
    """The database; `postgres`."""
    sslmode: SslMode | None = None
    """How the connection is secured; `disable`."""
    sslrootcert: str | None = None
    """A file with the certificate that the server's is signed with."""


class PostgresSinkSettings(PostgresConnection):
    batch_flush_interval: FlushInterval | None = None
    """How often batches of its sinks begin that do not say so themselves. Default: as soon as the last one is done."""
    batch_size: int = Field(100, ge=1)
    statement_timeout_secs: int = Field(60, ge=0)
    pool_acquire_timeout_secs: int = Field(30, ge=0)
    pool_idle_timeout_secs: int = Field(600, ge=0)
    pool_max_lifetime_secs: int = Field(1800, ge=0)


class PostgresStoreSettings(FrozenModel):
    """A database for what is remembered."""

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
    """The file, from the pipeline's directory on; `.penstock/state.db` if nobody says another."""
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
    """The same as `sort_key_range`."""
    query_timeout_sec: float = Field(60, gt=0)


class ClickHouseSinkSettings(ClickHouseSettings):
    compression: Literal["none", "gzip", "zstd", "lz4"] = "none"
    """How rows are packed on their way, unless a sink says so itself: `none`, `gzip`, `zstd` or `lz4`."""
    compression_level: int = Field(6, ge=0, le=9)
    """How hard `gzip` tries."""
    batch_size: int = Field(100_000, ge=1)
    """Rows of one insert at most."""
    batch_flush_interval: FlushInterval | None = None
    """How often batches of its sinks begin that do not say so themselves. Default: as soon as the last one is done."""


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
    """What a sink is called where connections of single sinks are told."""
    return re.sub("[^A-Z0-9]", "_", sink.upper())


def _flatten_connections(tree: Any) -> Any:
    """Connections by the name of a sink in capitals. A name with `__` in it has become two levels.

    What is said under several spellings of a name is put together; what comes later is stronger.
    """
    if not isinstance(tree, dict):
        return tree
    found: dict[str, Any] = {}

    def walk(name: str, said: Any) -> None:
        deeper = isinstance(said, dict) and said and all(isinstance(below, dict) for below in said.values())
        if not deeper or _CONNECTION & said.keys():
            spelt = connection_name(name)
            both = isinstance(said, dict) and isinstance(found.get(spelt), dict)
            found[spelt] = {**found[spelt], **said} if both else said
            return
        for inner, below in said.items():
            walk(f"{name}__{inner}", below)

    for name, said in tree.items():
        walk(name, said)
    return found


def _lower_keys(tree: Any) -> Any:
    """Names of variables come so, those of a file as they were written; what comes later is stronger."""
    return {str(name).lower(): said for name, said in tree.items()} if isinstance(tree, dict) else tree


_APPLICATION: Final = TextPattern(r"[^/\x00-\x1f]+", "it has at least one character, and no `/` or control character")


class Settings(FrozenModel):
    """Settings of the application itself, from a file and from the environment, which is stronger.

    A property is named `PENSTOCK__A__B` there; the same name with the prefix `STREAMLING__` is read too and is the
    weaker of the two.
    """

    application_id: Annotated[str, _APPLICATION] | None = None
    """Tells apart what is remembered of several deployments of one pipeline."""
    pipeline_definition_location: str = "./pipeline.yaml"
    """The pipeline, where the command line names none."""
    job_mode: bool = False
    """Whether the run is to end by itself: every source must come to an end then."""
    enforce_primary_keys: bool = False
    """Whether every node must have a primary key."""
    num_records_before_stop: int | None = Field(None, ge=1)
    """After how many rows of a print sink the run ends."""
    print_sink: PrintSinkSettings = PrintSinkSettings()
    external_http_handler: HttpSettings = HttpSettings()
    http_secret_header: Annotated[dict[str, str], BeforeValidator(_lower_keys)] = {}
    """Names of headers, by the `secret_name` of a node, in either case."""
    http_secret_value: Annotated[dict[str, SecretStr], BeforeValidator(_lower_keys)] = Field({}, repr=False)
    """What those headers say."""
    kafka_source: KafkaSourceSettings = KafkaSourceSettings()
    kafka_sink: KafkaSettings = KafkaSettings()
    postgres_sink: PostgresSinkSettings = PostgresSinkSettings()
    postgres_sink_connections: Annotated[dict[str, PostgresConnection], BeforeValidator(_flatten_connections)] = {}
    """Databases of single sinks, by their names."""
    clickhouse_source: ClickHouseSourceSettings = ClickHouseSourceSettings()
    clickhouse_sink: ClickHouseSinkSettings = ClickHouseSinkSettings()
    log_format: Literal["text", "json"] = "text"
    """How `run` writes its lines to stderr: as text, with a time and a level where that is not a terminal, or one JSON
    object a line."""
    record_batch_size: int = Field(1000, ge=1)
    record_batch_interval_ms: int = Field(100, ge=0)
    internal_buffer_size: int = Field(10, ge=1)
    checkpoint_interval_sec: float = Field(5, gt=0)
    """How often `run` says at most, where it is not on a terminal, that batches are done: `Epoch finalized: 1`.
    Progress itself is kept with every batch."""
    drain_policy: Literal["auto", "drain", "fast"] = "auto"
    """What a stop waits for. `auto`: for the batches under way; `drain`: for those of real-time queries too, which are
    long; `fast`: for none, but of what comes to an end by itself."""
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
    """How long a stop may take at most. What is not done by then is given up, and done again by the next start."""
    plugin_drain_budget_secs: float = Field(60, gt=0)
    backpressure_event_threshold_ms: int = Field(100, ge=0)
