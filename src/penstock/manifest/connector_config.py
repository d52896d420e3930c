"""Connector configurations in a manifest: in the form of a document, with inherited values added."""

import json
from typing import Any, Literal

from penstock.connectors.contract import Sink, Source
from penstock.connectors.kafka import KafkaSource
from penstock.connectors.kafka_sink import KafkaSink
from penstock.connectors.topic import TopicColumn, TopicSource
from penstock.connectors.topic_sink import TopicSink
from penstock.graph.graph import Graph, Node
from penstock.manifest.external_resources import model_schema
from penstock.project.stream_project import Model
from penstock.project.stream_project import Source as ProjectSource
from penstock.project.yaml.variables import find_references
from penstock.row_columns import OP


def connector_config(node: Node) -> dict[str, Any]:
    """The connector of a pipeline's node. One that refers to variables stays as it was written. Its key is that of the
    node, in the spelling of the columns. A source may inherit it from its schema, and a sink from its input."""
    assert isinstance(node.element, Source | Sink)
    said = dict(node.unfilled) if node.unfilled is not None else _dump_connector(node.element)
    filled_later = any(True for _ in find_references(said.get("primary_key")))
    return {**said, "primary_key": ",".join(node.key)} if node.key and not filled_later else said


def topic_source(node: Node, graph: Graph) -> dict[str, Any]:
    """How to read the topic of a source or model. A model's columns are left for Spark to find."""
    assert isinstance(node.element, ProjectSource | Model)
    if isinstance(node.element, ProjectSource) and node.element.table is not None:
        return node.element.table.as_source()
    topic, on_kafka = node.element.topic, graph.runtime.kafka is not None
    if isinstance(node.element, Model):
        own = (
            KafkaSource(topic=topic, data_format="avro" if node.element.is_avro else "json")
            if on_kafka
            else TopicSource(topic=topic, formats=("parquet",))
        )
        return _dump_connector(own)
    said = node.element.has_row_columns or (node.element.schema_ and node.element.schema_.definition)
    declared = [c for c in node.columns or () if said and c.name not in node.element.clocks]
    as_written = {node.event_time.column: node.written_time} if node.event_time is not None else {}
    columns = tuple(TopicColumn(name=c.name, type=as_written.get(c.name) or c.type or "STRING") for c in declared)
    key = node.key
    if not on_kafka:
        return _dump_connector(TopicSource(topic=topic, columns=columns, operation=bool(key)))
    schema = {c.name: c.type for c in columns if c.name != OP}
    form = _data_format(node.element)
    return _dump_connector(
        KafkaSource(
            topic=topic,
            data_format=form,
            schema_=(schema or None) if form == "json" else None,
            operation=bool(key) or len(schema) < len(columns),
            primary_key=key,
            **(_registry_fields(node.element) if form == "avro" else {}),
        )
    )


def _registry_fields(source: ProjectSource) -> dict[str, Any]:
    """The subject and version of a source's schema, where they differ from the defaults."""
    schema = source.schema_
    assert schema is not None
    elsewhere = {} if source.subject == f"{source.topic}-value" else {"schema_subject": source.subject}
    return elsewhere if schema.version in (None, "latest") else {**elsewhere, "schema_version": schema.version}


def _data_format(source: ProjectSource) -> Literal["avro", "json"]:
    """The record format of a source: that of its schema, or JSON objects if it has none."""
    return "avro" if source.schema_ is not None and source.schema_.is_avro else "json"


def model_sink(node: Node, graph: Graph) -> dict[str, Any]:
    assert isinstance(node.element, Model)
    if node.topic is None:
        connector = node.element.advanced.connector
        assert connector is not None
        key = node.change_key or node.key
        return {**({"primary_key": ",".join(key)} if key else {}), **connector.as_sink(node.id)}
    if graph.runtime.kafka is not None:
        topic, key = node.topic.name, node.change_key or node.key
        form, schema = ("avro", json.dumps(model_schema(node))) if node.element.is_avro else ("json", None)
        own = {"topic": topic, "data_format": form, "schema": schema, "deduplicate": False}
        return _dump_connector(KafkaSink.model_validate({"from": node.id, "primary_key": key, **own}))
    return _dump_connector(TopicSink(from_=node.id, primary_key=node.key, topic=node.topic.name))


def _dump_connector(connector: Source | Sink) -> dict[str, Any]:
    """A connector in the form of a document."""
    kept = connector.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return {"type": connector.type, **kept}
