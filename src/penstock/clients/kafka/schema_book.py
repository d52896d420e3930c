"""What a schema registry has said about topics, kept for as long as a run lasts."""

from collections.abc import Mapping

from penstock.clients.kafka.avro import AvroSchemas
from penstock.clients.kafka.wire import Writers, asked_for, has_fields_of, or_null
from penstock.clients.schema_registry import Registered, Registry
from penstock.errors import ServiceError


class SchemaBook:
    """Schemas by topic. The one that rows are read into stays as it was at first: a query keeps its columns."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._subjects: dict[tuple[str, int | str], AvroSchemas] = {}
        self._keys: dict[str, dict[int, str]] = {}
        self._asked: dict[int, str | None] = {}
        self._registered: dict[tuple[str, str], int] = {}
        self._chosen: dict[tuple[str, str], Registered] = {}

    def schemas(self, topic: str, subject: str, version: int | str | None = None) -> AvroSchemas:
        """Everything that is known about the records of a topic. Rows are read into this version of its subject."""
        wanted = version or "latest"
        if (subject, wanted) not in self._subjects:
            self._subjects[subject, wanted] = self._first(topic, subject, wanted)
        known, further = self._subjects[subject, wanted], self._further()
        return AvroSchemas(known.reader, {**known.writers, **further.writers}, further.unknown)

    def key_schemas(self, topic: str) -> Writers:
        """Everything that is known about the keys of a topic. They need not be Avro, nor anybody's to look at."""
        if topic not in self._keys:
            found: Mapping[int, Registered] = {}
            try:
                found = self.registry.versions(f"{topic}-key")
            except LookupError:
                pass
            except ServiceError as error:
                if error.code != "registry-refused":
                    raise
            self._keys[topic] = {schema.number: schema.text for schema in found.values() if schema.kind == "AVRO"}
        further = self._further()
        return Writers({**self._keys[topic], **further.writers}, further.unknown)

    def _further(self) -> Writers:
        """What was asked for by number."""
        unknown = frozenset(number for number, text in self._asked.items() if text is None)
        return Writers({number: text for number, text in self._asked.items() if text is not None}, unknown)

    def learn(self, number: int) -> None:
        """Ask for a schema by its number. That the registry has none is remembered too, or none that is
        a schema of Avro."""
        try:
            found = self.registry.schema(number)
            self._asked[number] = found.text if found.kind == "AVRO" else None
        except (LookupError, ValueError):
            self._asked[number] = None

    def learned(self, failure: str) -> bool:
        """Whether something failed for a schema that it did not know, and that is known now.

        Somebody else who met it may have asked first. Whatever is begun from here on knows the schema, so nothing fails
        for it again.
        """
        number = asked_for(failure)
        if number is not None and number not in self._asked:
            self.learn(number)
        return number is not None

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """The number of a schema that we write by; the registry is asked once."""
        if (subject, schema) not in self._registered:
            try:
                self._registered[subject, schema] = self.registry.register(subject, schema, kind)
            except ValueError as error:
                text = f"the registry does not take the new schema of `{subject}`: {error}"
                raise ServiceError("schema-refused", text) from error
        return self._registered[subject, schema]

    def to_write(self, subject: str, schema: str) -> Registered:
        """The schema that rows are written by: the newest of a subject if it has the same fields, or else this one.

        Where values of the subject may be null as a whole, so may those of this one: it would not be compatible.
        """
        if (subject, schema) not in self._chosen:
            newest = self.registry.latest(subject)
            if newest is not None and newest.kind == "AVRO" and has_fields_of(newest.text, schema):
                self._chosen[subject, schema] = newest
            else:
                wanted = schema if newest is None or newest.kind != "AVRO" else or_null(schema, newest.text)
                self._chosen[subject, schema] = Registered(self.register(subject, wanted), wanted)
        return self._chosen[subject, schema]

    def _first(self, topic: str, subject: str, version: int | str) -> AvroSchemas:
        try:
            found = self.registry.versions(subject)
        except LookupError:
            text = f"the schema registry has no subject `{subject}`, so the records of `{topic}` cannot be read"
            hint = "register a schema, or say another format"
            raise ServiceError("schema-unknown", text, hint=hint) from None
        except ValueError as error:
            text = f"the schemas of `{subject}` cannot be used: {error}"
            raise ServiceError("schema-unknown", text) from error
        wanted = found.get(max(found) if version == "latest" else int(version))
        if wanted is None:
            raise ServiceError("schema-unknown", f"the subject `{subject}` has no version {version}")
        if wanted.kind != "AVRO":
            text = f"the schema of `{subject}` is {wanted.kind}, so the records of `{topic}` cannot be read as Avro"
            raise ServiceError("schema-unknown", text, hint="say another format")
        writers = {schema.number: schema.text for schema in found.values() if schema.kind == "AVRO"}
        return AvroSchemas(wanted.text, writers)
