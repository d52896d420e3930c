"""Settings of the application that are accepted but change nothing here, and why."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.settings import Settings

INERT: Final[Mapping[str, str]] = {
    "record_batch_size": "a batch is what is there when it begins",
    "record_batch_interval_ms": "a batch begins when the last one is done, or as `batch_flush_interval` of a sink says",
    "internal_buffer_size": "Spark hands rows on by itself",
    "preview_tolerant_mode": "there is no preview",
    "state_backend.sqlite.max_connections": "there is no pool of connections",
    "state_backend.postgres.max_connections": "there is no pool of connections",
    "state_backend.postgres.acquire_timeout_secs": "there is no pool of connections",
    "dynamic_table_backend": "there are no dynamic tables",
    "clickhouse_source.sort_key_range": "a page ends behind a number of rows, however far their keys are apart",
    "clickhouse_source.block_range": "a page ends behind a number of rows, however far their keys are apart",
    "wasm_script": "there are no scripts",
    "plugin": "other packages bring connectors by entry points",
    "open_telemetry_metrics": "metrics are not sent anywhere",
    "live_data_inspect_enabled": "`penstock show` has rows of a node",
    "live_data_inspect": "`penstock show` has rows of a node",
    "admin_api_port": "there is no such interface",
    "test_settings": "they belong to the tests of another program",
    "plugin_drain_budget_secs": "`shutdown_budget_secs` is how long a stop may take, whatever it waits for",
    "backpressure_event_threshold_ms": "Spark reads no more than it can write",
    "kafka_source.lag_report_interval_ms": "`penstock status --lag` tells it when asked",
    "kafka_source.consumer_fetch_timeout_sec": "Spark decides how long it waits for a broker",
    "kafka_source.stall_watchdog_timeout_sec": "Spark decides how long it waits for a broker",
    "postgres_sink.batch_size": "the rows of a task travel in one COPY",
    "postgres_sink.statement_timeout_secs": "a server may work for as long as it answers",
    "postgres_sink.pool_acquire_timeout_secs": "there is no pool of connections",
    "postgres_sink.pool_idle_timeout_secs": "there is no pool of connections",
    "postgres_sink.pool_max_lifetime_secs": "there is no pool of connections",
}
"""Settings that are understood and change nothing, and why. A section stands for everything in it."""


def ineffective_settings(settings: Settings) -> Iterator[tuple[str, str]]:
    """The settings that were given and change nothing, each section once, and why."""
    for name, why in INERT.items():
        if _is_given(settings, name.split(".")):
            yield name, why


def _is_given(section: Any, steps: list[str]) -> bool:
    first, *rest = steps
    return first in section.model_fields_set and (not rest or _is_given(getattr(section, first), rest))
