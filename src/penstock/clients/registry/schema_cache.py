"""Schemas that a registry has returned, kept for a run."""

import json
import time
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.backoff import delay_secs
from penstock.clients.kafka.avro import AvroSchemas
from penstock.clients.kafka.confluent_wire import WriterSchemas, has_same_fields, make_nullable
from penstock.clients.registry.client import RegisteredSchema, Registry
from penstock.errors import QueryFailed, ServiceError

_PAUSE_SECS: Final = 5.0
_LONGEST_SECS: Final = 300.0


@dataclass(frozen=True, slots=True)
class _MissingSchema:
    """The registry had no schema with this id when it was asked; `due` is when to ask again."""

    asked_at: float
    attempts: int = 1

    @property
    def due(self) -> float:
        return self.asked_at + delay_secs(self.attempts, first_secs=_PAUSE_SECS, longest_secs=_LONGEST_SECS)


class SchemaArrived(QueryFailed):
    """A query must restart: the registry has a schema that it did not have when the query began."""

    def __init__(self, number: int) -> None:
        super().__init__("query-failed", f"the registry has schema {number} now", retriable=True)


class SchemaCache:
    """Schemas by topic. The reader's schema stays that of the first request: a query keeps its columns."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._subjects: dict[tuple[str, int | str], AvroSchemas] = {}
        self._keys: dict[str, dict[int, str]] = {}
        self._known: dict[int, str] = {}
        self._missing: dict[int, _MissingSchema] = {}
        self._fixed: WriterSchemas | None = None
        self._registered: dict[tuple[str, str], int] = {}
        self._chosen: dict[tuple[str, str], RegisteredSchema] = {}

    def schemas(self, topic: str, subject: str, version: int | str | None = None) -> AvroSchemas:
        """Return the schemas of a topic's records. Rows are read with this version of its subject."""
        wanted = version or "latest"
        if (subject, wanted) not in self._subjects:
            self._subjects[subject, wanted] = self._fetch_subject(topic, subject, wanted)
        known, further = self._subjects[subject, wanted], self._requested_writers()
        return AvroSchemas(known.reader, {**known.writers, **further.writers}, further.unknown, further.since)

    def key_schemas(self, topic: str) -> WriterSchemas:
        """Return the schemas of a topic's keys. They need not be Avro, nor readable for us."""
        if topic not in self._keys:
            found: Mapping[int, RegisteredSchema] = {}
            try:
                found = self.registry.versions(f"{topic}-key")
            except LookupError:
                pass
            except ServiceError as error:
                if error.code != "registry-refused":
                    raise
            self._keys[topic] = {schema.number: schema.text for schema in found.values() if schema.kind == "AVRO"}
        further = self._requested_writers()
        return WriterSchemas({**self._keys[topic], **further.writers}, further.unknown, further.since)

    def _requested_writers(self) -> WriterSchemas:
        return self._fixed or WriterSchemas(dict(self._known), frozenset(self._missing))

    def freeze(self, notes: Path | None) -> "SchemaCache":
        """Return a copy that learns no further ids, so that all batches of a query are decoded alike.

        Ids without a schema are noted. If one of them gets a schema later, batches that began before are still decoded
        without it when they are retried: a sink may have the rest of such a batch, and its dead letters may be stored.
        """
        found, noted = copy(self), _read_notes(notes)
        known, missing, now = dict(self._known), frozenset(self._missing), int(time.time() * 1000)
        since = {number: at or now for number, at in noted.items() if self._has(number)}
        if notes is not None and (kept := {**noted, **dict.fromkeys(missing - since.keys()), **since}) != noted:
            _write_notes(notes, kept)
        found._fixed = WriterSchemas(known, missing - known.keys(), since)
        return found

    @property
    def restart_reason(self) -> SchemaArrived | None:
        """Why a query with this copy should restart, if more schemas are known now."""
        fixed = WriterSchemas({}) if self._fixed is None else self._fixed
        return next((SchemaArrived(number) for number in fixed.unknown if number in self._known), None)

    def _has(self, number: int) -> bool:
        others = (*self._keys.values(), *(known.writers for known in self._subjects.values()))
        return number in self._known or any(number in numbers for numbers in others)

    def learn(self, number: int) -> None:
        """Fetch a schema by its id. If there is none, or it is not Avro, that is remembered for a while."""
        try:
            found = self.registry.schema(number)
        except (LookupError, ValueError):
            found = None
        if found is not None and found.kind == "AVRO":
            self._known[number] = found.text
            self._missing.pop(number, None)
        else:
            before = self._missing.get(number)
            self._missing[number] = _MissingSchema(time.monotonic(), 1 if before is None else before.attempts + 1)

    def refresh_missing(self) -> None:
        """Fetch missing schemas again when they are due. May be called from another thread."""
        now = time.monotonic()
        for number, missing in list(self._missing.items()):
            if now >= missing.due:
                self.learn(number)

    def resolve_schema(self, number: int) -> None:
        """Ask for a schema that a query failed for, unless another query has asked already.

        Queries that start from here on know the schema, or know that there is none.
        """
        if number not in self._known and number not in self._missing:
            self.learn(number)

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """Register a schema once per run, and return its id."""
        if (subject, schema) not in self._registered:
            try:
                self._registered[subject, schema] = self.registry.register(subject, schema, kind)
            except ValueError as error:
                text = f"the registry refuses the new schema of `{subject}`: {error}"
                raise ServiceError("schema-refused", text) from error
        return self._registered[subject, schema]

    def writer_schema(self, subject: str, schema: str) -> RegisteredSchema:
        """Return the schema to write with: the latest of the subject if it has the same fields, else this one.

        If the latest allows a null in place of a record, so does this one: it would not be compatible otherwise.
        """
        if (subject, schema) not in self._chosen:
            newest = self.registry.latest(subject)
            if newest is not None and newest.kind == "AVRO" and has_same_fields(newest.text, schema):
                self._chosen[subject, schema] = newest
            else:
                wanted = schema if newest is None or newest.kind != "AVRO" else make_nullable(schema, newest.text)
                self._chosen[subject, schema] = RegisteredSchema(self.register(subject, wanted), wanted)
        return self._chosen[subject, schema]

    def _fetch_subject(self, topic: str, subject: str, version: int | str) -> AvroSchemas:
        try:
            found = self.registry.versions(subject)
        except LookupError:
            text = f"the schema registry has no subject `{subject}`, so the records of `{topic}` cannot be read"
            hint = "register a schema, or set another `data_format`"
            raise ServiceError("schema-unknown", text, hint=hint) from None
        except ValueError as error:
            text = f"the schemas of `{subject}` cannot be used: {error}"
            raise ServiceError("schema-unknown", text) from error
        wanted = found.get(max(found, default=0) if version == "latest" else int(version))
        if wanted is None:
            which = "no schema" if version == "latest" else f"no version {version}"
            raise ServiceError("schema-unknown", f"the subject `{subject}` has {which}")
        if wanted.kind != "AVRO":
            text = f"the schema of `{subject}` is {wanted.kind}, so the records of `{topic}` cannot be read as Avro"
            raise ServiceError("schema-unknown", text, hint="set another `data_format`")
        writers = {schema.number: schema.text for schema in found.values() if schema.kind == "AVRO"}
        return AvroSchemas(wanted.text, writers)


def _read_notes(notes: Path | None) -> dict[int, int | None]:
    """Return ids that had no schema when a query began, and since when they have one, in milliseconds since 1970."""
    if notes is None or not notes.is_file():
        return {}
    return {int(number): at for number, at in json.loads(notes.read_text(encoding="utf-8")).items()}


def _write_notes(notes: Path, numbers: Mapping[int, int | None]) -> None:
    notes.parent.mkdir(parents=True, exist_ok=True)
    staged = notes.with_suffix(".new")
    staged.write_text(json.dumps(numbers), encoding="utf-8")
    staged.replace(notes)
