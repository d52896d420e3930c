"""Columns from the text of a schema."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.clients.registry.columns import columns_of, key_of
from penstock.manifest.compile import compile
from tests.support import check_text, errors, only, spot
from tests.unit.conftest import MAIN, Findings, Link


def avro(kind: Any) -> str | None:
    (column,) = (
        columns_of(json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]}), "avro") or ()
    )
    return column.type


def from_json(schema: Any) -> str | None:
    (column,) = columns_of(json.dumps({"type": "object", "properties": {"c": schema}}), "json") or ()
    return column.type


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("string", "STRING"),
        ("bytes", "BINARY"),
        ("int", "INT"),
        ("long", "BIGINT"),
        ("float", "FLOAT"),
        ("double", "DOUBLE"),
        ("boolean", "BOOLEAN"),
        (["null", "string"], "STRING"),
        (["long", "null"], "BIGINT"),
        (["null", "string", "int"], None),
        (["null"], None),
        ("null", None),
        ("other.Record", None),
        ({"type": "string"}, "STRING"),
        ({"type": {"type": "long"}}, "BIGINT"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, "STRING"),
        ({"type": "fixed", "name": "f", "size": 4}, "BINARY"),
        ({"type": "int", "logicalType": "date"}, "DATE"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "TIMESTAMP"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "TIMESTAMP_NTZ"),
        ({"type": "string", "logicalType": "uuid"}, "STRING"),
        ({"type": "long", "logicalType": "something-new"}, "BIGINT"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, "DECIMAL(10, 2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10}, "DECIMAL(10, 0)"),
        (["null", {"type": "int", "logicalType": "date"}], "DATE"),
        ({"type": "array", "items": "string"}, "ARRAY<STRING>"),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, "ARRAY<ARRAY<INT>>"),
        ({"type": "array", "items": "other.Record"}, None),
        ({"type": "map", "values": "long"}, "MAP<STRING, BIGINT>"),
        (
            {
                "type": "record",
                "name": "x",
                "fields": [{"name": "a", "type": "int"}, {"name": "b c", "type": "string"}],
            },
            "STRUCT<`a`: INT, `b c`: STRING>",
        ),
        ({"type": "record", "name": "x", "fields": [{"name": "a", "type": "other.Record"}]}, None),
        ({"type": "record", "name": "x", "fields": []}, None),
        (5, None),
        (None, None),
    ],
)
def test_a_type_of_avro_is_one_of_spark(kind: Any, expected: str | None) -> None:
    assert avro(kind) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "STRING"),
        ({"type": "integer"}, "BIGINT"),
        ({"type": "number"}, "DOUBLE"),
        ({"type": "boolean"}, "BOOLEAN"),
        ({"type": "string", "format": "date-time"}, "TIMESTAMP"),
        ({"type": "string", "format": "date"}, "DATE"),
        ({"type": "string", "format": "email"}, "STRING"),
        ({"type": ["string", "null"]}, "STRING"),
        ({"type": ["null", "string"], "format": "date"}, "DATE"),
        ({"type": ["string", "integer"]}, None),
        ({"type": "array", "items": {"type": "integer"}}, "ARRAY<BIGINT>"),
        ({"type": "array"}, None),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "STRUCT<`a`: STRING>"),
        ({"type": "object"}, None),
        ({"enum": ["a"]}, None),
        ({"$ref": "#/x"}, None),
        (True, None),
        ({}, None),
    ],
)
def test_a_type_of_json_schema_is_one_of_spark(schema: Any, expected: str | None) -> None:
    assert from_json(schema) == expected


def test_columns_keep_their_order() -> None:
    fields = [{"name": name, "type": "int"} for name in ("z", "a", "m")]
    columns = columns_of(json.dumps({"type": "record", "name": "r", "fields": fields}), "avro") or ()
    assert [c.name for c in columns] == ["z", "a", "m"]


def test_protobuf_tells_nothing() -> None:
    assert columns_of("message X { string a = 1; }", "protobuf") is None


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("text", ["", "nonsense", "{", "[]", "5", "null", '"string"', '{"type": "record"}'])
def test_a_text_that_is_no_schema_of_rows_is_refused(form: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|Avro"):
        columns_of(text, form)


@pytest.mark.parametrize("fields", [[5], [{"type": "int"}], [{"name": 5, "type": "int"}], [{"name": "a"}], {}])
def test_fields_that_are_none_are_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match="Avro"):
        columns_of(json.dumps({"type": "record", "name": "r", "fields": fields}), "avro")


# In a project


def source(definition: str, form: str = "avro", more: str = "") -> str:
    quoted = definition.replace("'", "''")
    return (
        f"project: {{name: p}}\n"
        f"sources: [{{name: s, topic: t, schema: {{format: {form}, definition: '{quoted}'}}{more}}}]\n"
        "models: [{name: m, sql: 'SELECT * FROM {{ source(\"s\") }}'}]\n"
    )


RECORD = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "on", "type": "string"}]}'


def test_the_columns_of_a_source_are_those_of_its_schema(project_graph: Link) -> None:
    graph = project_graph(source(RECORD))
    assert [(c.name, c.type) for c in graph["model.m"].columns or ()] == [("id", "BIGINT"), ("on", "STRING")]


def test_columns_that_are_declared_are_stronger(project_graph: Link) -> None:
    graph = project_graph(source(RECORD, more=", columns: [{name: only, type: INT}]"))
    assert [c.name for c in graph["model.m"].columns or ()] == ["only"]


def test_a_column_without_a_type_has_that_of_the_schema(project_graph: Link) -> None:
    graph = project_graph(source(RECORD, more=", columns: [{name: id}, {name: 'on', type: DATE}]"))
    assert [(c.name, c.type) for c in graph["model.m"].columns or ()] == [("id", "BIGINT"), ("on", "DATE")]


def test_a_list_without_any_type_describes_columns_of_the_schema(project_graph: Link) -> None:
    text = source(RECORD, more=", columns: [{name: id, description: The order, classification: internal}]")
    graph = project_graph(text)
    assert [(c.name, c.type) for c in graph["model.m"].columns or ()] == [("id", "BIGINT"), ("on", "STRING")]
    assert graph["model.m"].classification == {"id": "internal"}
    (node,) = [node for node in compile(graph).dag.nodes if node.id == "source.s"]
    assert [(c.name, c.description) for c in node.columns or ()] == [("id", "The order"), ("on", None)]


REFERRED = """
project: {name: p}
sources: [{name: s, topic: t, columns: [{name: email, classification: sensitive}]%s}]
models: [{name: m, sql: 'SELECT id, SUM(amount) AS n FROM {{ source("s") }} GROUP BY id'}]
"""


@pytest.mark.parametrize("schema", ["", ", schema: {registry: confluent, subject: x}", ", schema: {format: avro}"])
def test_a_list_without_any_type_is_not_the_whole_row(tmp_path: Path, schema: str) -> None:
    graph, found = check_text(tmp_path, {MAIN: REFERRED % schema})
    assert errors(found) == []
    assert graph is not None
    assert graph["source.s"].columns is None
    assert graph["source.s"].classification == {"email": "sensitive"}
    (node,) = [node for node in compile(graph).dag.nodes if node.id == "source.s"]
    assert [c.name for c in node.columns or ()] == ["email"]
    (entry,) = compile(graph).queries[0].inputs
    assert "columns" not in entry.source


def test_a_schema_that_cannot_be_read_is_reported_at_its_place(project: Findings) -> None:
    text = source("{nonsense")
    found = only(project(text))
    assert (found.code, found.path, found.origin) == (
        "invalid-value",
        "sources.s.schema.definition",
        spot(MAIN, text, "'{nonsense"),
    )


@pytest.mark.parametrize("form", ["avro", "AVRO", "json", "Json", "protobuf"])
def test_the_format_is_known_in_any_case(project: Findings, form: str) -> None:
    text = '{"properties": {"a": {"type": "string"}}}' if form.lower() == "json" else RECORD
    assert project(source(text, form)) == ()


PROTOBUF = """
project: {name: p}
runtime: {kafka: {bootstrap_servers: "a:9092"}}
sources:
  - {name: s, topic: t, schema: {registry: confluent, format: protobuf}, columns: [{name: a, type: INT}]}
models:
  - {name: m, sql: 'SELECT a FROM {{ source("s") }}'}
"""


def test_records_in_protobuf_are_refused_where_they_would_be_read(project: Findings) -> None:
    found = only(project(PROTOBUF))
    assert (found.code, found.path) == ("format-unsupported", "sources.s.schema.format")
    assert found.origin == spot(MAIN, PROTOBUF, "protobuf")
    assert "format-unsupported" not in {d.code for d in project(PROTOBUF[: PROTOBUF.index("models:")])}
    assert "format-unsupported" not in {d.code for d in project(PROTOBUF.replace("protobuf", "json"))}


@pytest.mark.parametrize("definition", ["[" * 50_000, '{"type":' * 50_000])
def test_a_schema_that_is_nested_too_deeply_is_a_diagnostic(project: Findings, definition: str) -> None:
    assert only(project(source(definition))).code == "invalid-value"


def test_columns_of_a_schema_that_differ_in_case_only_are_refused(project: Findings) -> None:
    fields = '[{"name": "a", "type": "int"}, {"name": "A", "type": "string"}]'
    assert project(source(f'{{"type": "record", "name": "r", "fields": {fields}}}'))


PAIR = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ({**PAIR, "doc": '{"primaryKeys": ["a", "b"]}'}, ("a", "b")),
        ({**PAIR, "connect.doc": '{"primaryKeys": ["b"]}'}, ("b",)),
        ({**PAIR, "doc": '{"about": 1}', "connect.doc": '{"primaryKeys": ["b"]}'}, ("b",)),
        (["null", {**PAIR, "doc": '{"primaryKeys": ["a"]}'}], ("a",)),
        (PAIR, ()),
        ({**PAIR, "doc": "orders of the shop"}, ()),
        ({**PAIR, "doc": '["primaryKeys"]'}, ()),
        ({**PAIR, "doc": '{"primaryKeys": "a"}'}, ()),
        ("string", ()),
    ],
)
def test_the_documentation_of_a_record_may_name_its_key(schema: object, key: tuple[str, ...]) -> None:
    assert key_of(json.dumps(schema)) == key


def test_a_record_that_may_be_null_has_the_columns_of_the_record() -> None:
    assert columns_of(json.dumps(["null", PAIR]), "avro") == columns_of(json.dumps(PAIR), "avro")
