"""The resources of a project in other systems: connectors of Kafka Connect, virtual topics of a gateway, schemas."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.graph.graph import Graph, Node
from penstock.graph.model.materialization import foreign_connector
from penstock.graph.model.virtual_topics import virtual_topic
from penstock.manifest.resources import ConnectorSpec, GatewayRule, Interceptor, SchemaSpec
from penstock.project.stream_project import Model, ModelSchema, SchemaReference
from penstock.project.stream_project import Source as ProjectSource
from penstock.row_columns import OP
from penstock.sql.gateway.selection import Selection
from penstock.sql.types.avro_types import avro_record

CONNECTOR_CLASSES: Final[Mapping[str, str]] = {
    "snowflake-sink": "com.snowflake.kafka.connector.SnowflakeSinkConnector",
    "bigquery-sink": "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector",
    "s3-sink": "io.confluent.connect.s3.S3SinkConnector",
    "gcs-sink": "io.confluent.connect.gcs.GcsSinkConnector",
    "jdbc-sink": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "elasticsearch-sink": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
    "http-sink": "io.confluent.connect.http.HttpSinkConnector",
}
"""Connector classes by the names that documents use. Any other name is a class name."""


def has_query(graph: Graph, node: Node) -> bool:
    """Whether Spark runs a query for a model: views run inside others, and Kafka Connect reads plain topics itself."""
    if node.materialized == "virtual_topic":
        return False
    assert isinstance(node.element, Model)
    foreign = foreign_connector(node.element, node.materialized, graph.runtime.connect)
    return node.topic is not None or foreign is None


def connectors(graph: Graph) -> Iterator[ConnectorSpec]:
    for node in graph.nodes.values():
        if not isinstance(node.element, Model):
            continue
        connector = foreign_connector(node.element, node.materialized, graph.runtime.connect)
        if connector is None:
            continue
        topics = [node.topic.name] if node.topic else [_topic_of(graph[i]) for i in node.inputs]
        kind = CONNECTOR_CLASSES.get(connector.type, connector.type)
        tasks = {} if connector.tasks_max is None else {"tasks.max": str(connector.tasks_max)}
        clusters = graph.runtime.connect
        own = {"name": node.name, "connector.class": kind, "topics": ",".join(topics)}
        yield ConnectorSpec(
            name=node.name,
            node=node.id,
            connector_class=kind,
            topics=tuple(topics),
            cluster=node.element.advanced.connect_cluster or (clusters.default if clusters else None),
            config={**own, **tasks, **connector.config},
        )


def _topic_of(node: Node) -> str:
    """The topic on the broker, or in the gateway, that holds the rows of a node."""
    match node.element:
        case ProjectSource() as source:
            return source.topic
        case Model() as model if node.materialized == "virtual_topic":
            return model.virtual_topic
        case Model() as model:
            return model.topic
        case _:
            return node.name


def gateway_rules(graph: Graph) -> Iterator[GatewayRule]:
    if not graph.runtime.has_gateway:
        return
    for node in graph.nodes.values():
        if not isinstance(node.element, Model) or node.materialized != "virtual_topic":
            continue
        found = virtual_topic(node, graph.nodes)
        assert found is not None
        physical = _topic_of(found.physical)
        yield GatewayRule(
            name=node.name,
            node=node.id,
            virtual_topic=node.element.virtual_topic,
            physical_topic=physical,
            with_schema=found.with_schema,
            interceptors=(*_selection(found.selection, physical), *_masks(node.element, found.masked)),
        )


def _selection(chosen: Selection, physical: str) -> Iterator[Interceptor]:
    if chosen.outputs is not None:
        yield Interceptor(type="sql", config={"statement": chosen.statement(physical)})
    elif chosen.where is not None:
        yield Interceptor(type="filter", config={"where": chosen.where})


def _masks(model: Model, masked: Sequence[str]) -> Iterator[Interceptor]:
    """The masks of a virtual topic. A gateway can only redact; other masks are refused before."""
    roles = {mask.column.casefold(): list(mask.for_roles) for mask in model.security.masks}
    for column in masked:
        config = {"field": column, "method": "redact", "forRoles": roles.get(column.casefold(), [])}
        yield Interceptor(type="mask", config=config)


def model_schema(node: Node) -> dict[str, Any]:
    """The Avro schema of a model's records: its columns, and its key for readers."""
    assert node.topic is not None
    key = node.change_key or node.key
    doc = json.dumps({"primaryKeys": list(key)}) if key else None
    return avro_record(node.topic.name, [c for c in node.columns or () if c.name != OP], doc)


def _model_schemas(graph: Graph) -> Iterator[SchemaSpec]:
    for node in graph.nodes.values():
        if isinstance(node.element, Model) and node.element.is_avro and node.topic and graph.runtime.kafka is not None:
            yield SchemaSpec(
                subject=f"{node.topic.name}-value",
                node=node.id,
                schema_type="AVRO",
                schema_=model_schema(node),
                compatibility=_compatibility(node.element.schema_, graph),
            )


def schemas(graph: Graph) -> Iterator[SchemaSpec]:
    """The schemas to register. A schema that is only referred to is never overwritten."""
    yield from _model_schemas(graph)
    for node in graph.nodes.values():
        schema = node.element.schema_ if isinstance(node.element, ProjectSource) else None
        if schema is None or schema.definition is None or not isinstance(node.element, ProjectSource):
            continue
        form = schema.format or "avro"
        yield SchemaSpec(
            subject=node.element.subject,
            node=node.id,
            schema_type=form.upper(),
            schema_=json.loads(schema.definition) if form != "protobuf" else schema.definition,
            compatibility=_compatibility(schema, graph),
        )


def _compatibility(schema: ModelSchema | SchemaReference | None, graph: Graph) -> str | None:
    """The compatibility mode of a schema, if it is set."""
    registry = graph.runtime.schema_registry
    said = (schema and schema.compatibility) or (registry and registry.compatibility)
    return said.upper() if said else None
