"""What a project wants of other systems: connectors of Kafka Connect, virtual topics of a gateway, schemas."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from penstock.graph.graph import Graph, Node
from penstock.graph.materialization import foreign_connector
from penstock.manifest.model import ConnectorSpec, GatewayRule, Interceptor, SchemaSpec
from penstock.project.stream_project import Model
from penstock.project.stream_project import Source as ProjectSource
from penstock.sql.clauses import filter_text, is_plain_filter
from penstock.sql.query import rename_tables
from penstock.sql.translate import to_spark

CONNECTOR_CLASSES: Final[Mapping[str, str]] = {
    "snowflake-sink": "com.snowflake.kafka.connector.SnowflakeSinkConnector",
    "bigquery-sink": "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector",
    "s3-sink": "io.confluent.connect.s3.S3SinkConnector",
    "gcs-sink": "io.confluent.connect.gcs.GcsSinkConnector",
    "jdbc-sink": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "elasticsearch-sink": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
    "http-sink": "io.confluent.connect.http.HttpSinkConnector",
}
"""The names that documents use. Anything else is taken for the name of a class."""


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
        yield ConnectorSpec(
            name=node.name,
            node=node.id,
            connector_class=kind,
            topics=tuple(topics),
            cluster=node.element.advanced.connect_cluster or (clusters.default if clusters else None),
            config={
                "name": node.name,
                "connector.class": kind,
                "topics": ",".join(topics),
                **tasks,
                **connector.config,
            },
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
        if isinstance(node.element, Model) and node.materialized == "virtual_topic" and len(node.inputs) == 1:
            physical = _topic_of(graph[node.inputs[0]])
            yield GatewayRule(
                name=node.name,
                node=node.id,
                virtual_topic=node.element.virtual_topic,
                physical_topic=physical,
                compression=_compression(node.element),
                interceptors=(*_selection(node, physical), *_masks(node)),
            )


def _compression(model: Model) -> str | None:
    virtual = model.gateway.virtual_topic if model.gateway else None
    return virtual.compression if virtual else None


def _selection(node: Node, physical: str) -> Iterator[Interceptor]:
    if node.query is None:
        return
    if is_plain_filter(node.query):
        where = filter_text(node.query)
        if where is not None:
            yield Interceptor(type="filter", config={"where": where})
    else:
        statement = rename_tables(node.query, lambda _: physical)
        yield Interceptor(type="sql", config={"statement": to_spark(statement)})


def _masks(node: Node) -> Iterator[Interceptor]:
    assert isinstance(node.element, Model)
    roles = {mask.column.casefold(): list(mask.for_roles) for mask in node.element.security.masks}
    for mask in node.masks:
        config: dict[str, Any] = {
            "field": mask.column,
            "method": mask.policy,
            "forRoles": roles.get(mask.column.casefold(), []),
        }
        if mask.policy == "partial":
            config["visibleChars"] = mask.visible_chars
        if mask.policy == "hash":
            config |= {"algorithm": mask.algorithm, **({"salt": mask.salt} if mask.salt else {})}
        yield Interceptor(type="mask", config=config)


def schemas(graph: Graph) -> Iterator[SchemaSpec]:
    """Schemas that are written out. A schema that is only referred to is never written over."""
    for node in graph.nodes.values():
        schema = node.element.schema_ if isinstance(node.element, ProjectSource) else None
        if schema is None or schema.definition is None or not isinstance(node.element, ProjectSource):
            continue
        form = schema.format or "avro"
        yield SchemaSpec(
            subject=node.element.subject,
            node=node.id,
            schema_type=form.upper(),
            schema_=_parsed(schema.definition) if form != "protobuf" else schema.definition,
            compatibility=schema.compatibility.upper() if schema.compatibility else None,
        )


def _parsed(definition: str) -> Any:
    return json.loads(definition)
