"""Decodes the values of dead letters for display."""

from typing import Any

from penstock.cli.output import exact_json
from penstock.clients.clusters import Clusters
from penstock.clients.dead_letters.model import DeadLetter
from penstock.clients.kafka.avro_values import decode_avro, schema_number
from penstock.errors import ServiceError


class ValueReader:
    """Decodes Avro values with the schemas of the registry. Asks once per schema."""

    def __init__(self, clusters: Clusters) -> None:
        book = None if clusters.source is None else clusters.source.schemas
        self._registry = None if book is None else book.registry
        self._schemas: dict[int, str | None] = {}

    def text(self, letter: DeadLetter) -> str:
        """The value as text."""
        found = self.decode_value(letter)
        return str(letter.about["value"] or "") if found is None else exact_json(found)

    def to_json(self, letter: DeadLetter) -> dict[str, Any]:
        """The dead letter as JSON, with an Avro value decoded."""
        found = self.decode_value(letter)
        return letter.to_json() if found is None else {**letter.to_json(), "decoded": found}

    def decode_value(self, letter: DeadLetter) -> Any:
        """The decoded value of an Avro record; None if it is not Avro or cannot be decoded."""
        number = None if letter.value is None else schema_number(letter.value)
        schema = None if number is None else self._schema(number)
        if schema is None or letter.value is None:
            return None
        try:
            return decode_avro(schema, letter.value)
        except ValueError:
            return None

    def _schema(self, number: int) -> str | None:
        if number not in self._schemas:
            self._schemas[number] = self._fetch_schema(number)
        return self._schemas[number]

    def _fetch_schema(self, number: int) -> str | None:
        if self._registry is None:
            return None
        try:
            found = self._registry.schema(number)
        except (LookupError, ValueError):
            return None
        except ServiceError:
            self._registry = None
            return None
        return found.text if found.kind == "AVRO" else None
