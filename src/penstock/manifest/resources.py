"""What a project owns in other systems: topics, connectors, virtual topics, schemas."""

from typing import Any, Literal

from pydantic import Field

from penstock.manifest.part import Part


class TopicSpec(Part):
    """A topic that the project writes and therefore owns."""

    name: str
    node: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: dict[str, str | int | float | bool] = {}
    on_kafka: bool = False
    """Whether it is a topic of a broker, and no directory."""
    only_made: bool = False
    """Whether it is left alone once it is there."""


class ConnectorSpec(Part):
    """A connector of Kafka Connect that the project wants."""

    name: str
    node: str
    connector_class: str
    topics: tuple[str, ...]
    cluster: str | None = None
    config: dict[str, Any]


class Interceptor(Part):
    type: Literal["filter", "sql", "mask"]
    config: dict[str, Any]


class GatewayRule(Part):
    """A virtual topic of the gateway."""

    name: str
    node: str
    virtual_topic: str = Field(alias="virtualTopic")
    physical_topic: str = Field(alias="physicalTopic")
    with_schema: bool = False
    """Whether its records can only be read with a schema of the registry."""
    interceptors: tuple[Interceptor, ...] = ()


class SchemaSpec(Part):
    """A schema that is written in the project. One that is only referred to belongs to somebody else."""

    subject: str
    node: str
    schema_type: str
    schema_: Any = Field(alias="schema")
    compatibility: str | None = None
