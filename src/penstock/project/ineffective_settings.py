"""Settings of the application that are accepted but have no effect on Spark, and why."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.settings import Settings

INERT: Final[Mapping[str, str]] = {
    "record_batch_size": "a batch takes the rows that are available when it begins",
    "record_batch_interval_ms": "a batch begins when the previous one ends, or at the `batch_flush_interval` of a sink",
    "internal_buffer_size": "Spark manages its own buffers",
    "preview_tolerant_mode": "a preview always stops at the first error",
    "state_backend.sqlite.max_connections": "there is no connection pool",
    "state_backend.postgres.max_connections": "there is no connection pool",
    "state_backend.postgres.acquire_timeout_secs": "there is no connection pool",
    "dynamic_table_backend": "dynamic tables are not supported",
    "clickhouse_source.sort_key_range": "a page ends after a number of rows, whatever their keys are",
    "clickhouse_source.block_range": "a page ends after a number of rows, whatever their keys are",
    "wasm_script": "scripts are not supported",
    "plugin": "other packages bring connectors by entry points",
    "open_telemetry_metrics": "metrics are not sent anywhere",
    "live_data_inspect_enabled": "use `penstock show` to see rows",
    "live_data_inspect": "use `penstock show` to see rows",
    "admin_api_port": "there is no admin API",
    "test_settings": "these settings are for another program's tests",
    "plugin_drain_budget_secs": "`shutdown_budget_secs` limits the whole stop",
    "backpressure_event_threshold_ms": "Spark reads the next batch only when the last one is written",
    "kafka_source.lag_report_interval_ms": "use `penstock status --lag`",
    "kafka_source.consumer_fetch_timeout_sec": "Spark decides how long it waits for a broker",
    "kafka_source.stall_watchdog_timeout_sec": "Spark decides how long it waits for a broker",
    "postgres_sink.batch_size": "one COPY sends all rows of a task",
    "postgres_sink.statement_timeout_secs": "a statement may run for as long as the server responds",
    "postgres_sink.pool_acquire_timeout_secs": "there is no connection pool",
    "postgres_sink.pool_idle_timeout_secs": "there is no connection pool",
    "postgres_sink.pool_max_lifetime_secs": "there is no connection pool",
}
"""Settings without effect, and the reason. A section stands for all settings in it."""


def ineffective_settings(settings: Settings) -> Iterator[tuple[str, str]]:
    """The given settings without effect, each section once, with the reason."""
    for name, why in INERT.items():
        if _is_given(settings, name.split(".")):
            yield name, why


def _is_given(section: Any, steps: list[str]) -> bool:
    first, *rest = steps
    return first in section.model_fields_set and (not rest or _is_given(getattr(section, first), rest))
