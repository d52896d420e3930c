"""What the project reads."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.config import Duration, Frozen
from penstock.project.stream_project.parts import Column, EventTime, Name, Waiver


def _folded(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class SchemaReference(Frozen):
    """The schema of a topic: written here, or by its name in a registry."""

    registry: str | None = None
    """The kind of registry that holds it, such as `confluent`."""
    subject: str | None = None
    """Its name there; `<topic>-value` when left out."""
    version: int | Literal["latest"] | None = None
    """Its version there."""
    format: Annotated[
        Literal["avro", "json", "protobuf"] | None, BeforeValidator(_folded, json_schema_input_type=str | None)
    ] = None
    """`avro` (the default), `json` or `protobuf`."""
    compatibility: str | None = None
    """What a later version must be compatible with, such as `BACKWARD`."""
    definition: str | None = None
    """The schema itself. The columns of an Avro record or a JSON schema are the source's columns."""


def _milliseconds(value: Any, seconds: str, duration: str) -> Any:
    """`max_lag_seconds: 300` is another way to write `error_after: 300s`."""
    if isinstance(value, dict) and seconds in value and duration not in value:
        rest = {key: inner for key, inner in value.items() if key != seconds}
        number = value[seconds]
        whole = isinstance(number, int) and not isinstance(number, bool)
        return {**rest, duration: number * 1000 if whole else number}
    return value


class Freshness(Frozen):
    """How long a topic may be silent. `max_lag_seconds` and `warn_after_seconds` are other ways to write it."""

    warn_after: Duration | None = None
    """After how long there is a warning: `5m`."""
    error_after: Duration | None = None
    """After how long it is an error: `15m`."""

    @model_validator(mode="before")
    @classmethod
    def _in_seconds(cls, value: Any) -> Any:
        value = _milliseconds(value, "max_lag_seconds", "error_after")
        return _milliseconds(value, "warn_after_seconds", "warn_after")


class Source(Frozen):
    """A topic that others write and this project reads."""

    name: Name
    """What `source()` calls it."""
    topic: str = Field(min_length=1)
    """The topic it reads."""
    description: str | None = None
    """What it is."""
    owner: str | None = None
    """Who answers for it."""
    tags: tuple[str, ...] = ()
    """Words to find it by."""
    cluster: str | None = None
    """The Kafka cluster it lives in. There is one cluster, `runtime.kafka`, so it has no effect."""
    schema_: SchemaReference | None = Field(None, alias="schema")
    """The schema of its rows."""
    columns: tuple[Column, ...] = ()
    """The columns of a row. Without them, those of `schema.definition`, or of an embedded topic's files."""
    event_time: EventTime | None = None
    """When a row happened. Windows need it."""
    freshness: Freshness | None = None
    """How long it may be silent."""
    waivers: tuple[Waiver, ...] = ()
    """Rules that it may break for a while."""
