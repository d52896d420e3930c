"""Reads the application's settings from a file and from variables named `PENSTOCK__A__B`, which override the file."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.errors import Diagnostic, Origin, ProjectInvalid, Severity, did_you_mean
from penstock.project.validation.declaration import Declaration
from penstock.project.validation.mistakes import validation_diagnostics
from penstock.project.yaml.documents import Document
from penstock.project.yaml.read import read_document
from penstock.project.yaml.variables import Environ
from penstock.settings import PostgresConnection, Settings

OURS: Final = "PENSTOCK__"
THEIRS: Final = "STREAMLING__"
BASE: Final = "config"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_NO_POOL: Final = "there is no connection pool"
INERT: Final[Mapping[str, str]] = {
    "record_batch_size": "a batch takes the rows that are available when it begins",
    "record_batch_interval_ms": "a batch begins when the previous one ends, or at the `batch_flush_interval` of a sink",
    "internal_buffer_size": "Spark manages its own buffers",
    "preview_tolerant_mode": "a preview always stops at the first error",
    "state_backend.sqlite.max_connections": _NO_POOL,
    "state_backend.postgres.max_connections": _NO_POOL,
    "state_backend.postgres.acquire_timeout_secs": _NO_POOL,
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
    "postgres_sink.pool_acquire_timeout_secs": _NO_POOL,
    "postgres_sink.pool_idle_timeout_secs": _NO_POOL,
    "postgres_sink.pool_max_lifetime_secs": _NO_POOL,
}
"""Settings without effect, and the reason. A section stands for all settings in it."""


def settings_file(named: Path | None, *folders: Path) -> Path | None:
    """The named file, with or without its extension; else `config.yaml` or the like in one of the folders."""
    if named is not None and named.is_file():
        return named
    bases = [folder / BASE for folder in folders] if named is None else [named]
    found = (base.with_name(base.name + suffix) for base in bases for suffix in _SUFFIXES)
    return next((file for file in found if file.is_file()), named)


def read_settings(file: Path | None, environ: Environ, shown_as: str) -> tuple[Settings, list[Diagnostic]]:
    """The settings, and diagnostics about wrong settings and settings without effect."""
    document, diagnostics = _read_file(file, shown_as) if file is not None else (None, [])
    values = document.value if document is not None and not diagnostics else {}
    try:
        settings = settings_from(environ, values)
    except ProjectInvalid as invalid:
        return Settings(), [_prefix_message(d) for d in (*diagnostics, *invalid.diagnostics)]
    return settings, [*map(_prefix_message, diagnostics), *_ineffective_settings(settings, document)]


def _prefix_message(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic, with a prefix that says that it is about settings."""
    is_error = diagnostic.severity is Severity.ERROR
    return replace(diagnostic, message=f"Failed to load config: {diagnostic.message}") if is_error else diagnostic


def _read_file(file: Path, shown_as: str) -> tuple[Document | None, list[Diagnostic]]:
    if not file.is_file():
        hint = "name a settings file, with or without its extension"
        return None, [Diagnostic("file-unreadable", "there is no such file", Origin(shown_as), hint=hint)]
    document, diagnostics = read_document(file, shown_as)
    if document is None or diagnostics:
        return document, diagnostics
    if not isinstance(document.value, dict):
        return document, [Diagnostic("wrong-shape", "a settings file must be a mapping", document.origin())]
    try:
        Settings.model_validate(document.value)
    except ValidationError as error:
        return document, validation_diagnostics(Settings, error, document.value, Declaration(None, document, (), BASE))
    return document, []


def ineffective_settings(settings: Settings) -> Iterator[tuple[str, str]]:
    """The given settings without effect, each section once, with the reason."""
    return ((name, why) for name, why in INERT.items() if _is_given(settings, name.split(".")))


def _is_given(section: Any, steps: list[str]) -> bool:
    first, *rest = steps
    return first in section.model_fields_set and (not rest or _is_given(getattr(section, first), rest))


def _ineffective_settings(settings: Settings, document: Document | None) -> Iterator[Diagnostic]:
    for name, why in ineffective_settings(settings):
        steps = name.split(".")
        value: Any = document.value if document is not None else None
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        origin = document.origin(*steps) if document is not None and value is not None else None
        text = f"this setting has no effect: {why}"
        yield Diagnostic("no-effect", text, origin, name, None, Severity.INFO, {"field": name})


def settings_from(environ: Mapping[str, str], file: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a file and an environment.

    An unknown variable with Penstock's prefix, or one with an invalid value, is an error. An empty variable counts as
    unset.
    """
    theirs = _shared_settings(Settings, _environ_tree(environ, THEIRS))
    try:
        return Settings.model_validate(
            _merge_settings(_merge_settings(file or {}, theirs), _environ_tree(environ, OURS))
        )
    except ValidationError as error:
        raise ProjectInvalid([_to_diagnostic(detail, environ) for detail in error.errors(include_url=False)]) from None


def _environ_tree(environ: Mapping[str, str], prefix: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name in sorted(environ):
        if name.startswith(prefix) and environ[name]:
            *levels, leaf = name.removeprefix(prefix).lower().split("__")
            branch = tree
            for level in levels:
                branch = branch.setdefault(level, {})
                if not isinstance(branch, dict):
                    break
            else:
                branch[leaf] = environ[name]
    return tree


def _shared_settings(model: type[BaseModel], tree: dict[str, Any]) -> dict[str, Any]:
    """The settings of another system that Penstock shares with it."""
    known: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        nested, name = field.annotation, field.alias or name
        if name in tree and isinstance(nested, type) and issubclass(nested, BaseModel):
            known |= {name: _shared_settings(nested, tree[name])} if isinstance(tree[name], dict) else {}
        elif name == "postgres_sink_connections" and isinstance(tree.get(name), dict):
            known[name] = _known_connections(tree[name])
        elif name in tree:
            known[name] = tree[name]
    return known


def _known_connections(tree: dict[str, Any]) -> dict[str, Any]:
    """The settings of known connections, at any depth of their names."""
    below = {name: _known_connections(value) for name, value in tree.items() if isinstance(value, dict)}
    here = {name: value for name, value in tree.items() if name in _field_names(PostgresConnection)}
    return {**{name: value for name, value in below.items() if value}, **here}


def _merge_settings(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(weaker)
    for name, value in stronger.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merge_settings(merged[name], value) if both else value
    return merged


def _to_diagnostic(detail: ErrorDetails, environ: Mapping[str, str]) -> Diagnostic:
    steps = [str(step) for step in detail["loc"]]
    variable = "__".join(steps).upper()
    name = (THEIRS if THEIRS + variable in environ and OURS + variable not in environ else OURS) + variable
    if detail["type"] == "extra_forbidden":
        hint = did_you_mean(steps[-1], _section_fields(steps[:-1]), otherwise="there are")
        return Diagnostic("unknown-field", f"there is no setting `{name}`", None, name, hint, params={"field": name})
    if detail["type"] in ("model_type", "model_attributes_type", "dict_type"):
        first = next(iter(_section_fields(steps)), "…").upper()
        text, hint = "this is a section of settings, not a single setting", f"name a setting in it: `{name}__{first}`"
        return Diagnostic("wrong-shape", text, None, name, hint, params={"field": name})
    text = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return Diagnostic("invalid-value", text[:1].lower() + text[1:], path=name, hint="change the variable")


def _section_fields(steps: list[str]) -> list[str]:
    """The names of the settings in a section."""
    model: Any = Settings
    for step in steps:
        field = model.model_fields.get(step) if hasattr(model, "model_fields") else None
        model = field.annotation if field is not None else PostgresConnection
    return _field_names(model) if hasattr(model, "model_fields") else []


def _field_names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
