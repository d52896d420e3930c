"""Plans the schemas of the registry."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.clients.clusters import Clusters
from penstock.clients.registry.client import Registry
from penstock.clients.registry.columns import columns_of
from penstock.errors import Diagnostic
from penstock.manifest.model import Manifest
from penstock.manifest.resources import SchemaSpec
from penstock.plan.steps import PutSchema


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject of the registry: its newest schema, its compatibility mode, and its complaints about the project's
    schema."""

    schema: str
    compatibility: str | None = None
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subjects:
    """Subjects by name; None if the registry lacks one. Only requested subjects are included."""

    there: Mapping[str, Subject | None] = field(default_factory=dict)


NO_SUBJECTS: Final = Subjects()


def ask_subjects(manifest: Manifest, clusters: Clusters) -> Subjects:
    """Ask about every schema that the project registers. Raises a ServiceError if the registry cannot be reached."""
    book = clusters.source.schemas if clusters.source is not None else None
    if book is None:
        return NO_SUBJECTS
    return Subjects({schema.subject: _subject(schema, book.registry) for schema in manifest.schemas})


def _subject(schema: SchemaSpec, registry: Registry) -> Subject | None:
    newest = registry.newest(schema.subject)
    if newest is None:
        return None
    level = registry.compatibility(schema.subject)
    if _is_same(newest, schema):
        return Subject(newest, level)
    return Subject(newest, level, registry.complaints(schema.subject, schema_text(schema), schema.schema_type))


def schema_text(schema: SchemaSpec) -> str:
    """A schema in the form of a registry."""
    return schema.schema_ if isinstance(schema.schema_, str) else json.dumps(schema.schema_)


def schema_steps(manifest: Manifest, subjects: Subjects) -> Iterator[PutSchema]:
    for schema in manifest.schemas:
        if schema.subject not in subjects.there:
            continue
        subject = subjects.there[schema.subject]
        if subject is None:
            yield PutSchema(schema, "the registry has no such subject", new=True)
            continue
        reasons = [] if _is_same(subject.schema, schema) else [*_differences(subject.schema, schema)]
        if schema.compatibility is not None and schema.compatibility != subject.compatibility:
            reasons.append(f"compatibility {subject.compatibility or 'unset'} -> {schema.compatibility}")
        if reasons:
            yield PutSchema(schema, ", ".join(reasons))


def schema_refusals(manifest: Manifest, subjects: Subjects) -> Iterator[Diagnostic]:
    """Refuse schemas that are incompatible with the registered ones."""
    for schema in manifest.schemas:
        subject = subjects.there.get(schema.subject)
        if subject is None or not subject.complaints or schema.compatibility == "NONE":
            continue
        changes = ", ".join(_differences(subject.schema, schema))
        readers = [q.name for q in manifest.queries if any(entry.node == schema.node for entry in q.inputs)]
        text = f"the schema of `{schema.subject}` cannot change like this: {changes}; {'; '.join(subject.complaints)}"
        if readers:
            text += f". It is read by {', '.join(f'`{name}`' for name in readers)}"
        hint = "give new fields a default and keep the others; or set `compatibility: NONE` if no client breaks"
        yield Diagnostic("schema-incompatible", text, hint=hint, params={"subject": schema.subject})


def _is_same(registered: str, schema: SchemaSpec) -> bool:
    return bool(_parse_text(registered) == _parse_text(schema_text(schema)))


def _parse_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return "".join(text.split())


def _differences(registered: str, schema: SchemaSpec) -> Iterator[str]:
    """The changes by column."""
    before, after = (_columns(text, schema.schema_type) for text in (registered, schema_text(schema)))
    found = [
        *(f"`{name}` is gone" for name in before if name not in after),
        *(f"`{name}` is new" for name in after if name not in before),
        *(f"`{name}` {before[name]} -> {kind}" for name, kind in after.items() if before.get(name, kind) != kind),
    ]
    yield from found or ["more than columns"]


def _columns(text: str, kind: str) -> dict[str, str | None]:
    try:
        return {column.name: column.type for column in columns_of(text, kind.lower()) or ()}
    except ValueError:
        return {}
