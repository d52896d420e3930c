"""Fetch what can be known about outside columns, without Spark, before linking."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.clients.topic_names import TOPIC_NAME
from penstock.connectors.topic import TopicSource
from penstock.errors import Diagnostic, ServiceError
from penstock.project import stream_project as written
from penstock.project.declared import Declared
from penstock.project.parse import Project
from penstock.project.parse_project import StreamProject
from penstock.sql.types import Column, Columns

KEPT: Final = Path(".penstock") / "cache" / "schemas.json"


def discover(project: Project, root: Path) -> Mapping[str, Columns]:
    """Columns by node id, from files and from what a registry said before; what cannot be told is left out."""
    if not isinstance(project, StreamProject):
        found = {f"source.{name}": s.value.rooted_at(root).known_columns() for name, s in project.sources.items()}
        return {node_id: columns for node_id, columns in found.items() if columns is not None}
    kept = _kept(root)
    schemas: dict[str, Columns] = {}
    for source in (declared.value for declared in project.sources):
        subject = _subject(source)
        if subject is not None and _key(source, subject) in kept:
            schemas[f"source.{source.name}"] = kept[_key(source, subject)]
        elif not source.columns and project.runtime.kafka is None and re.fullmatch(TOPIC_NAME, source.topic):
            columns = TopicSource(topic=source.topic).rooted_at(root).known_columns()
            schemas.update({f"source.{source.name}": columns} if columns is not None else {})
    return schemas


def ask_registry(project: Project, root: Path) -> list[Diagnostic]:
    """Ask the registry about every source that refers to it, and keep the answers for later."""
    if not isinstance(project, StreamProject):
        return []
    referring = [(source, subject) for source in project.sources if (subject := _subject(source.value)) is not None]
    if not referring or project.runtime.schema_registry is None:
        return []
    registry = project.runtime.schema_registry.registry()
    diagnostics: list[Diagnostic] = []
    kept = _kept(root)
    for source, subject in referring:
        version = source.value.schema_.version if source.value.schema_ else None
        try:
            columns = registry.columns(subject, version or "latest")
        except LookupError:
            diagnostics.append(_not_there(source, subject))
        except ValueError as error:
            diagnostics.append(_no_schema(source, str(error)))
        else:
            if columns is not None:
                kept[_key(source.value, subject)] = columns
    _keep(root, kept)
    return diagnostics


def _subject(source: written.Source) -> str | None:
    """The subject that holds a source's schema, if it is not written in the project."""
    schema = source.schema_
    if schema is None or schema.definition is not None or (schema.subject is None and schema.registry is None):
        return None
    return source.subject


def _key(source: written.Source, subject: str) -> str:
    return f"{subject}@{(source.schema_ and source.schema_.version) or 'latest'}"


def _not_there(source: Declared[written.Source], subject: str) -> Diagnostic:
    version = source.value.schema_.version if source.value.schema_ else None
    text = f"the registry has no subject `{subject}`" + (f" in version {version}" if version else "")
    origin, path = source.origin_of("schema"), source.label_of("schema")
    return Diagnostic("schema-unknown", text, origin, path, "see `schema.subject`", params={"subject": subject})


def _no_schema(source: Declared[written.Source], reason: str) -> Diagnostic:
    return Diagnostic("schema-unknown", reason, source.origin_of("schema"), source.label_of("schema"))


def _kept(root: Path) -> dict[str, Columns]:
    """What was said before. A file that is damaged is as good as none."""
    try:
        whole = json.loads((root / KEPT).read_text(encoding="utf-8"))
        return {str(key): tuple(Column(name, kind) for name, kind in listed) for key, listed in whole.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _keep(root: Path, kept: Mapping[str, Columns]) -> None:
    text = json.dumps({key: [[c.name, c.type] for c in columns] for key, columns in sorted(kept.items())}, indent=1)
    try:
        (root / KEPT).parent.mkdir(parents=True, exist_ok=True)
        (root / KEPT).write_text(text, encoding="utf-8")
    except OSError as error:
        text = f"cannot write {root / KEPT}: {error.strerror}"
        raise ServiceError("not-writable", text) from error
