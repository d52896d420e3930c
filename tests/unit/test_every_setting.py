"""Every property that the application's settings have in the format's documentation, from a file and from variables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import BaseModel

from penstock.project.application_settings import OURS, THEIRS
from penstock.settings import Settings
from penstock.workflow.stages import check

PASSWORD: Final = "hunter22"
STORE: Final = {
    "host": "store",
    "port": 5433,
    "db": "kept",
    "user": "keeper",
    "password": PASSWORD,
    "sslmode": "disable",
    "max_connections": 4,
    "acquire_timeout_secs": 9,
}
KAFKA: Final = {
    "brokers": "one:9092,two:9092",
    "security_protocol": "sasl_ssl",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "ada",
    "sasl_password": PASSWORD,
    "schema_registry_url": "https://registry:8081",
    "schema_registry_username": "grace",
    "schema_registry_password": PASSWORD,
    "client_id": "visits",
}
CLICKHOUSE: Final = {"url": "https://house:8443", "user": "ada", "password": PASSWORD, "database": "web"}
EVERY: Final[Mapping[str, Any]] = {
    "application_id": "visits_eu",
    "log_format": "json",
    "pipeline_definition_location": "./visits.yml",
    "record_batch_size": 500,
    "record_batch_interval_ms": 50,
    "internal_buffer_size": 20,
    "checkpoint_interval_sec": 2.5,
    "enforce_primary_keys": True,
    "num_records_before_stop": 7,
    "job_mode": True,
    "drain_policy": "fast",
    "preview_tolerant_mode": True,
    "state_backend": {
        "backend_type": "Postgres",
        "sqlite": {"database_path": "./kept.db", "max_connections": 2, "state_table_name": "notes"},
        "postgres": {**STORE, "state_schema_name": "ops", "state_table_name": "notes"},
    },
    "dynamic_table_backend": {
        "postgres": {**STORE, "dt_schema_name": "ops", "cache_enabled": True, "cache_refresh_debounce_ms": 0},
        "max_batch_size": 10,
    },
    "external_http_handler": {"trigger_max_count": 50, "operator_timeout_sec": 30, "buffer_size": 5},
    "http_secret_header": {"partner": "X-Key"},
    "http_secret_value": {"partner": PASSWORD},
    "wasm_script": {"runtime_wasm_file_path": "run.wasm", "parallelism": 4, "batch_size": 0},
    "plugin": {
        "path": "plugins",
        "channel_capacity": 100,
        "preprocessor_ids": "fill_in,trim",
        "preprocessor_options": {"fill_in": {"region": "eu"}},
        "side_output_ids": "watch",
        "side_output_options": {"watch": {"every": 10}},
        "acme": {"token": PASSWORD},
    },
    "kafka_source": {
        **KAFKA,
        "consumer_group_id": "visitors",
        "lag_report_interval_ms": 1000,
        "consumer_fetch_timeout_sec": 30,
        "stall_watchdog_timeout_sec": 90,
    },
    "kafka_sink": KAFKA,
    "clickhouse_source": {
        **CLICKHOUSE,
        "page_size": 5000,
        "sort_key_range": 100,
        "block_range": 100,
        "query_timeout_sec": 10,
    },
    "clickhouse_sink": {
        **CLICKHOUSE,
        "compression": "gzip",
        "compression_level": 1,
        "batch_size": 9000,
        "batch_flush_interval": "3s",
    },
    "print_sink": {"sample_every": 3},
    "postgres_sink": {
        "host": "db",
        "port": 6432,
        "user": "ada",
        "pass": PASSWORD,
        "db": "web",
        "sslmode": "require",
        "batch_flush_interval": "2s",
        "batch_size": 200,
        "statement_timeout_secs": 10,
        "pool_acquire_timeout_secs": 10,
        "pool_idle_timeout_secs": 10,
        "pool_max_lifetime_secs": 10,
    },
    "postgres_sink_connections": {"SHOWN": {"host": "old-db"}},
    "open_telemetry_metrics": {
        "ingestion_endpoint": "http://localhost:4318/v1/metrics",
        "endpoint_protocol": "http/protobuf",
        "batch_interval_secs": 30,
        "global_tags": "environment:production,image_tag:v2",
        "metric_deny_list": "kafka_.*,print_.*",
    },
    "live_data_inspect_enabled": True,
    "live_data_inspect": {"records_per_topology_node": 5, "refresh_in_secs": 10},
    "admin_api_port": 3001,
    "test_settings": {
        "telemetry_assertions_enabled": False,
        "prometheus_max_attempts": 3,
        "prometheus_sleep_ms": 100,
    },
    "shutdown_budget_secs": 12,
    "plugin_drain_budget_secs": 30,
    "backpressure_event_threshold_ms": 250,
}
OF_OURS: Final = {
    *(f"{section}.{name}" for section in ("kafka_source", "kafka_sink") for name in
      ("ssl_ca_location", "ssl_certificate_location", "ssl_key_location")),
    "postgres_sink.sslrootcert",
}  # fmt: skip
"""Settings that the format does not have."""
WITHOUT_EFFECT: Final = [
    "admin_api_port",
    "backpressure_event_threshold_ms",
    "clickhouse_source.block_range",
    "clickhouse_source.sort_key_range",
    "dynamic_table_backend",
    "internal_buffer_size",
    "kafka_source.consumer_fetch_timeout_sec",
    "kafka_source.lag_report_interval_ms",
    "kafka_source.stall_watchdog_timeout_sec",
    "live_data_inspect",
    "live_data_inspect_enabled",
    "open_telemetry_metrics",
    "plugin",
    "plugin_drain_budget_secs",
    "postgres_sink.batch_size",
    "postgres_sink.pool_acquire_timeout_secs",
    "postgres_sink.pool_idle_timeout_secs",
    "postgres_sink.pool_max_lifetime_secs",
    "postgres_sink.statement_timeout_secs",
    "preview_tolerant_mode",
    "record_batch_interval_ms",
    "record_batch_size",
    "state_backend.postgres.acquire_timeout_secs",
    "state_backend.postgres.max_connections",
    "state_backend.sqlite.max_connections",
    "test_settings",
    "wasm_script",
]
VISITS: Final = """\
sources: {visits: {type: generator, rows: 3, primary_key: id, columns: {id: {kind: sequence}}}}
sinks: {shown: {type: print, from: visits}}
"""


@pytest.fixture(params=["a file", THEIRS, OURS, "a file and variables"])
def given(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline, with every setting given in one way or another."""
    pipeline = tmp_path / "visits.yml"
    pipeline.write_text(VISITS, encoding="utf-8")
    if request.param.startswith("a file"):
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(dict(EVERY)), encoding="utf-8")
    if request.param != "a file":
        prefix = request.param if request.param in (OURS, THEIRS) else THEIRS
        for name, value in _variables(EVERY, prefix.removesuffix("__")):
            monkeypatch.setenv(name, value)
    return pipeline


def test_the_list_is_whole() -> None:
    assert set(_leaves(Settings)) - set(_names(EVERY)) == OF_OURS


def test_every_setting_is_taken_and_those_without_effect_are_told_once(given: Path) -> None:
    checked = check(given)
    assert {(note.code, note.severity.value) for note in checked.notes} == {("no-effect", "info")}
    assert sorted(note.path for note in checked.notes) == WITHOUT_EFFECT
    assert PASSWORD not in repr(checked.settings) + "".join(map(str, checked.notes))


def test_every_setting_arrives(given: Path) -> None:
    settings = check(given).settings
    dumped = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    expected = Settings.model_validate(EVERY).model_dump(mode="json", by_alias=True, exclude_unset=True)
    untyped = ("plugin", "test_settings")
    for section in untyped:
        assert dict(_variables(dumped.pop(section), "")) == dict(_variables(expected.pop(section), ""))
    assert dumped == expected
    assert (settings.checkpoint_interval_sec, settings.drain_policy, settings.job_mode) == (2.5, "fast", True)
    assert settings.state_backend.postgres.password.get_secret_value() == PASSWORD
    assert settings.kafka_source.consumer_group_id == "visitors"
    assert settings.kafka_sink.sasl_password is not None
    assert settings.kafka_sink.sasl_password.get_secret_value() == PASSWORD
    assert settings.clickhouse_sink.batch_flush_interval == 3000
    assert settings.postgres_sink.pass_ is not None
    assert settings.postgres_sink.pass_.get_secret_value() == PASSWORD
    assert settings.postgres_sink_connections["SHOWN"].host == "old-db"
    assert settings.http_secret_value["partner"].get_secret_value() == PASSWORD
    assert settings.open_telemetry_metrics.metric_deny_list == ("kafka_.*", "print_.*")


def test_plugins_may_be_listed_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "visits.yml").write_text(VISITS, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("plugin: {preprocessor_ids: [fill_in], path: p}\n", encoding="utf-8")
    assert [note.path for note in check(tmp_path / "visits.yml").notes] == ["plugin"]


def _variables(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    """A tree as variables."""
    for name, value in tree.items():
        variable = f"{prefix}__{name.upper()}"
        if isinstance(value, Mapping):
            yield from _variables(value, variable)
        else:
            yield variable, str(value).lower() if isinstance(value, bool) else str(value)


def _names(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        yield prefix + name
        yield from _names(value, f"{prefix}{name}.") if isinstance(value, Mapping) else ()


def _leaves(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        path, nested = prefix + (field.alias or name), field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _leaves(nested, f"{path}.")
        else:
            yield path
