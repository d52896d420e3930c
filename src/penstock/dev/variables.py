"""The environment variables through which projects and pipelines find the services of `penstock dev`."""

from collections.abc import Mapping
from typing import Any, Final

PROJECT: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": {"KAFKA_BOOTSTRAP_SERVERS": "bootstrap_servers"},
    "registry": {"SCHEMA_REGISTRY_URL": "url"},
    "connect": {"CONNECT_URL": "url"},
    "postgres": {
        "PGHOST": "host",
        "PGPORT": "port",
        "PGUSER": "user",
        "PGPASSWORD": "password",
        "PGDATABASE": "database",
    },
    "clickhouse": {
        "CLICKHOUSE_URL": "url",
        "CLICKHOUSE_USER": "user",
        "CLICKHOUSE_PASSWORD": "password",
        "CLICKHOUSE_DATABASE": "database",
    },
}
"""Variables that a project can refer to as `${NAME}`, and the service's fields for their values, by service."""

_BOTH: Final = ("SOURCE", "SINK")
PIPELINE: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": {f"PENSTOCK__KAFKA_{side}__BROKERS": "bootstrap_servers" for side in _BOTH},
    "registry": {f"PENSTOCK__KAFKA_{side}__SCHEMA_REGISTRY_URL": "url" for side in _BOTH},
    "postgres": {
        "PENSTOCK__POSTGRES_SINK__HOST": "host",
        "PENSTOCK__POSTGRES_SINK__PORT": "port",
        "PENSTOCK__POSTGRES_SINK__USER": "user",
        "PENSTOCK__POSTGRES_SINK__PASS": "password",
        "PENSTOCK__POSTGRES_SINK__DB": "database",
    },
    "clickhouse": {
        f"PENSTOCK__CLICKHOUSE_{side}__{name.upper()}": name
        for side in _BOTH
        for name in ("url", "user", "password", "database")
    },
}
"""Settings of pipelines, which read these variables without a reference."""


def variables(names: Mapping[str, Mapping[str, str]], report: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the variables of the running services, by name."""
    return {
        variable: str(report[service][field])
        for service, fields in names.items()
        if service in report
        for variable, field in fields.items()
    }
