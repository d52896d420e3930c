"""What a schema registry has said about topics, kept for as long as a run lasts."""

from penstock.clients.kafka.avro import AvroSchemas
from penstock.clients.schema_registry import Registry
from penstock.errors import ServiceError


class SchemaBook:
    """Schemas by topic. The one that rows are read into stays as it was at first: a query keeps its columns."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._topics: dict[str, AvroSchemas] = {}
        self._asked: dict[int, str | None] = {}
        self._registered: dict[tuple[str, str], int] = {}

    def schemas(self, topic: str, version: int | str | None = None) -> AvroSchemas:
        """Everything that is known about the records of a topic."""
        if topic not in self._topics:
            self._topics[topic] = self._first(topic, version)
        known = self._topics[topic]
        further = {number: text for number, text in self._asked.items() if text is not None}
        unknown = frozenset(number for number, text in self._asked.items() if text is None)
        return AvroSchemas(known.reader, {**known.writers, **further}, unknown)

    def learn(self, number: int) -> None:
        """Ask for a schema by its number. That the registry has none, or none that is a schema, is remembered too."""
        try:
            self._asked[number] = self.registry.schema(number)
        except (LookupError, ValueError):
            self._asked[number] = None

    def knows(self, number: int) -> bool:
        return number in self._asked

    def register(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """The number of a schema that we write by; the registry is asked once."""
        if (subject, schema) not in self._registered:
            try:
                self._registered[subject, schema] = self.registry.register(subject, schema, kind)
            except ValueError as error:
                text = f"the registry does not take the new schema of `{subject}`: {error}"
                raise ServiceError("schema-refused", text) from error
        return self._registered[subject, schema]

    def _first(self, topic: str, version: int | str | None) -> AvroSchemas:
        subject = f"{topic}-value"
        try:
            found = self.registry.versions(subject)
        except LookupError:
            text = f"the schema registry has no subject `{subject}`, so the records of `{topic}` cannot be read"
            hint = "register a schema, or say another format"
            raise ServiceError("schema-unknown", text, hint=hint) from None
        except ValueError as error:
            text = f"the schemas of `{subject}` cannot be used: {error}"
            raise ServiceError("schema-unknown", text) from error
        wanted = max(found) if version in (None, "latest") else version
        if wanted not in found:
            raise ServiceError("schema-unknown", f"the subject `{subject}` has no version {wanted}")
        return AvroSchemas(found[int(wanted)].text, {schema.number: schema.text for schema in found.values()})
