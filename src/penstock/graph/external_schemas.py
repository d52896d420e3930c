"""Fetches columns and keys of outside systems before linking, without Spark."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from penstock.clients.kafka.decode import METADATA_TYPES
from penstock.clients.registry.client import Registry, SubjectRows
from penstock.clients.rows.topic_names import TOPIC_NAME
from penstock.connectors.clickhouse import ClickHouseSource
from penstock.connectors.contract import Source
from penstock.connectors.hybrid import HybridSource
from penstock.connectors.kafka import KafkaSource
from penstock.connectors.topic import TopicSource
from penstock.errors import Diagnostic, ServiceError, Severity
from penstock.project import stream_project as written
from penstock.project.clusters import pipeline_clusters
from penstock.project.parse import Project
from penstock.project.project import StreamProject
from penstock.project.validation.declaration import Declaration
from penstock.settings import Settings
from penstock.sql.types.columns import Column, Columns

AnySource: TypeAlias = Declaration[written.Source] | Declaration[Source]
CACHE_FILE: Final = Path(".penstock") / "cache" / "schemas.json"


def discover_columns(project: Project, root: Path) -> Mapping[str, Columns]:
    """Columns by node id, from files and from cached answers of a registry. Unknown columns are left out."""
    cached = _load_cache(root)
    if not isinstance(project, StreamProject):
        settings = project.settings
        found = {
            f"source.{name}": _pipeline_columns(s.value, root, cached, settings) for name, s in project.sources.items()
        }
        for name, declared in project.sources.items():
            found |= {phase_id(name, at): columns for at, columns in _phase_columns(declared.value, root)}
        return {node_id: columns for node_id, columns in found.items() if columns is not None}
    schemas: dict[str, Columns] = {}
    for source in (declared.value for declared in project.sources):
        subject = _project_subject(source)
        known = cached.get(_subject_key(*subject)) if subject is not None else None
        if known is not None and known.columns is not None:
            schemas[f"source.{source.name}"] = known.columns
        elif not source.has_row_columns and project.runtime.kafka is None and re.fullmatch(TOPIC_NAME, source.topic):
            columns = TopicSource(topic=source.topic).with_root(root).known_columns()
            schemas.update({f"source.{source.name}": columns} if columns is not None else {})
    return schemas


def with_keys(project: Project, root: Path) -> Project:
    """The project, in which sources without a key have the key of their schema or table, if it is known."""
    if isinstance(project, StreamProject):
        return project
    cached, settings = _load_cache(root), project.settings
    keyed = {name: _with_key(declared, cached, settings) for name, declared in project.sources.items()}
    return replace(project, sources=keyed)


def _with_key(
    declared: Declaration[Source], cached: Mapping[str, SubjectRows], settings: Settings
) -> Declaration[Source]:
    known = None if declared.value.primary_key else cached.get(_cache_key(declared.value, settings))
    if known is None or not known.key:
        return declared
    return replace(declared, value=declared.value.model_copy(update={"primary_key": known.key}))


def ask_registry(project: Project, root: Path, *, only_read: bool = False) -> list[Diagnostic]:
    """Ask the registry about every source that refers to it, and cache the answers for `validate`. With `only_read`,
    ask only about sources that something reads.
    """
    registry, cached = _registry(project, root), _load_cache(root)
    read = _used_labels(project) if only_read else None
    requests = [asked for asked in _registry_requests(project) if read is None or asked.source.label in read]
    if not requests or registry is None:
        return []
    diagnostics: list[Diagnostic] = []
    for asked in requests:
        try:
            cached[_subject_key(asked.subject, asked.version)] = registry.rows(asked.subject, asked.version or "latest")
        except LookupError:
            diagnostics.append(_missing_subject(asked))
        except ValueError as error:
            at = _schema_steps(asked.source)
            diagnostics.append(asked.source.diagnostic("schema-unknown", str(error), at=at))
        except ServiceError as error:
            raise _with_source(asked.source, error, "failed to fetch its schema") from None
    _save_cache(root, cached)
    return diagnostics


def _used_labels(project: Project) -> frozenset[str]:
    """The labels of sources that something reads."""
    if not isinstance(project, StreamProject):
        return frozenset(declared.label for declared in project.sources.values())
    named = {reference.id for model in project.models for reference in model.value.from_}
    for model in project.models:
        if model.value.sql is not None:
            named |= {reference.id for reference in project.templates.render(model.value.sql).references}
    return frozenset(source.label for source in project.sources if f"source.{source.value.name}" in named)


def ask_tables(project: Project, root: Path) -> list[Diagnostic]:
    """Ask ClickHouse about the tables that a pipeline reads, and cache the answers for `validate`."""
    if isinstance(project, StreamProject):
        return []
    cached = _load_cache(root)
    diagnostics: list[Diagnostic] = []
    answers: dict[str, SubjectRows] = {}
    for declared in project.sources.values():
        source, name = declared.value, _cache_key(declared.value, project.settings)
        if isinstance(source, ClickHouseSource):
            try:
                found = source.with_settings(project.settings, declared.label.partition(".")[2]).describe_table()
            except ServiceError as error:
                if error.retriable and name in cached:
                    continue  # it may answer when rows are read
                raise _with_source(declared, error, "failed to read the definition of its table") from None
            answers[name] = SubjectRows(found.columns, found.key)
            if not source.primary_key and found.key and not found.keeps_one:
                diagnostics.append(_ambiguous_key(declared, found.key))
    if answers:
        _save_cache(root, {**cached, **answers})
    return diagnostics


def _with_source(source: AnySource, error: ServiceError, what: str) -> ServiceError:
    name = source.label.partition(".")[2]
    return error.with_context(f"source '{name}': {what}", node=name)


def _ambiguous_key(declared: Declaration[Source], key: tuple[str, ...]) -> Diagnostic:
    text = (
        f"the primary key is the table's sorting key, {', '.join(key)}, which may not be unique:"
        " sinks that write by it keep one of them"
    )
    hint = "add `primary_key: …` with columns that identify a row"
    return declared.diagnostic("primary-key-assumed", text, hint, severity=Severity.WARNING)


@dataclass(frozen=True, slots=True)
class _RegistryRequest:
    """A source and the subject to ask the registry for."""

    source: AnySource
    subject: str
    version: int | str | None = None


def _registry_requests(project: Project) -> Iterator[_RegistryRequest]:
    for declared in project.sources if isinstance(project, StreamProject) else project.sources.values():
        source = declared.value
        found = _project_subject(source) if isinstance(source, written.Source) else _pipeline_subject(source)
        if found is not None:
            yield _RegistryRequest(declared, *found)


def _registry(project: Project, root: Path) -> Registry | None:
    if isinstance(project, StreamProject):
        return project.runtime.schema_registry.registry(root) if project.runtime.schema_registry else None
    source = pipeline_clusters(project.settings, on_kafka=True).source
    return source.schemas.registry if source is not None and source.schemas is not None else None


def _project_subject(source: written.Source) -> tuple[str, int | str | None] | None:
    """The subject that holds a source's schema, and its version; None if the project has the schema itself."""
    schema = source.schema_
    return (source.subject, schema.version) if schema is not None and schema.is_registered else None


def _pipeline_subject(source: Source) -> tuple[str, int | str | None] | None:
    """The subject that holds a source's schema, and its version."""
    live = source.live
    if not isinstance(live, KafkaSource) or live.data_format != "avro" or live.envelope is not None:
        return None
    return live.subject, live.schema_version


def _pipeline_columns(
    source: Source, root: Path, cached: Mapping[str, SubjectRows], settings: Settings
) -> Columns | None:
    known = cached.get(_cache_key(source, settings))
    if known is None or known.columns is None:
        return source.with_root(root).known_columns()
    metadata = METADATA_TYPES if isinstance(source, KafkaSource) and source.include_metadata else {}
    return (*known.columns, *(Column(name, kind) for name, kind in metadata.items()))


def _cache_key(source: Source, settings: Settings) -> str:
    """The key of a source in the cache."""
    if isinstance(source, ClickHouseSource):
        return f"clickhouse:{settings.clickhouse_source.database}.{source.table_name}({', '.join(source.columns)})"
    return _subject_key(*(_pipeline_subject(source) or (None, None)))


def phase_id(source: str, at: int) -> str:
    """The id of a phase in the known columns."""
    return f"source.{source}#{at}"


def _phase_columns(source: Source, root: Path) -> Iterator[tuple[int, Columns | None]]:
    for at, phase in enumerate(source.before if isinstance(source, HybridSource) else ()):
        yield at, None if phase is None else phase.with_root(root).known_columns()


def _subject_key(subject: str | None, version: int | str | None = None) -> str:
    return f"{subject}@{version or 'latest'}"


def _missing_subject(asked: _RegistryRequest) -> Diagnostic:
    text = f"the registry has no subject `{asked.subject}`" + (f" in version {asked.version}" if asked.version else "")
    hint = "see `schema.subject`" if asked.source.has_field("schema") else "register a schema first"
    at = _schema_steps(asked.source)
    return asked.source.diagnostic("schema-unknown", text, hint, at=at, subject=asked.subject)


def _schema_steps(source: AnySource) -> tuple[str, ...]:
    """The path of the field that names a schema: `schema`, or the topic."""
    if source.has_field("schema"):
        return ("schema",)
    return ("unbounded_source", "topic") if isinstance(source.value, HybridSource) else ("topic",)


def _load_cache(root: Path) -> dict[str, SubjectRows]:
    """The cached answers. A damaged file is ignored."""
    try:
        whole = json.loads((root / CACHE_FILE).read_text(encoding="utf-8"))
        return {str(name): _parse_rows(stored) for name, stored in whole.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}


def _parse_rows(stored: Mapping[str, list[list[str]] | None]) -> SubjectRows:
    listed = stored["columns"]
    columns = None if listed is None else tuple(Column(name, kind) for name, kind in listed)
    return SubjectRows(columns, tuple(map(str, stored["key"] or ())))


def _save_cache(root: Path, cached: Mapping[str, SubjectRows]) -> None:
    whole = {
        name: {"columns": rows.columns and [[c.name, c.type] for c in rows.columns], "key": rows.key}
        for name, rows in sorted(cached.items())
    }
    try:
        (root / CACHE_FILE).parent.mkdir(parents=True, exist_ok=True)
        (root / CACHE_FILE).write_text(json.dumps(whole, indent=1), encoding="utf-8")
    except OSError as error:
        text = f"cannot write {root / CACHE_FILE}: {error.strerror}"
        raise ServiceError("not-writable", text) from error
