"""The resources that a project owns in other systems: topics, connectors, virtual topics, schemas."""

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
    """Whether it is a Kafka topic and not a directory."""
    only_made: bool = False
    """Whether it is only created, and never changed."""


class ConnectorSpec(Part):
    """A connector of Kafka Connect in the project."""

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
    """Whether its records need a schema of the registry."""
    interceptors: tuple[Interceptor, ...] = ()


class SchemaSpec(Part):
    """A schema that the project defines. One that is only referred to has another owner."""

    subject: str
    node: str
    schema_type: str
    schema_: Any = Field(alias="schema")
    compatibility: str | None = None
