"""Schemas of Avro that leave out what nobody reads, and take in what they refer to."""

import json

from penstock.clients.kafka.avro import select_fields
from penstock.clients.registry.references import inline_references


def _record(**fields: object) -> str:
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    )


def _names(schema: str) -> list[str]:
    return [field["name"] for field in json.loads(schema)["fields"]]


def test_fields_that_nobody_wants_are_left_out() -> None:
    schema = _record(Id="long", name="string", price={"type": "bytes", "logicalType": "decimal"}, tags=["null", "int"])
    assert _names(select_fields(schema, {"id", "price"})) == ["Id", "price"]


def test_one_field_stays_if_only_rows_are_counted() -> None:
    assert _names(select_fields(_record(id="long", name="string"), ())) == ["id"]


def test_types_with_names_stay_for_those_that_refer_to_them() -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}
    schema = _record(
        bill=["null", place],
        ship="Place",
        lots={"type": "array", "items": {"type": "enum", "name": "Lot", "symbols": ["A"]}},
        sums={"type": "map", "values": "long"},
        hash={"type": {"type": "fixed", "name": "Hash", "size": 4}},
        note={"type": "string"},
    )
    assert _names(select_fields(schema, {"ship"})) == ["bill", "ship", "lots", "hash"]


def test_values_that_are_no_records_stay_as_they_are() -> None:
    assert select_fields('"string"', {"x"}) == '"string"'
    assert select_fields('["null", "string"]', {"x"}) == '["null", "string"]'


def _order(*types: object) -> str:
    fields = [{"name": f"f{n}", "type": kind} for n, kind in enumerate(types)]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def _types(schema: str) -> list[object]:
    return [field["type"] for field in json.loads(schema)["fields"]]


SIZE = {"type": "enum", "name": "Size", "symbols": ["S", "L"]}


def test_a_type_of_another_schema_stands_where_it_is_first_used() -> None:
    whole = inline_references(_order("long", "Size", ["null", "Size"]), [json.dumps({**SIZE, "namespace": "shop"})])
    assert _types(whole) == ["long", {**SIZE, "namespace": "shop"}, ["null", "shop.Size"]]


def test_types_bring_those_that_they_refer_to() -> None:
    box = {"type": "record", "name": "a.Box", "fields": [{"name": "size", "type": "Size"}]}
    sizes = {"type": "record", "name": "Sizes", "namespace": "a", "fields": [{"name": "all", "type": SIZE}]}
    whole = inline_references(_order({"type": "array", "items": "a.Box"}, "a.Size"), map(json.dumps, (box, sizes)))
    size = {**SIZE, "namespace": "a"}
    filled = {"type": "record", "name": "Box", "namespace": "a", "fields": [{"name": "size", "type": size}]}
    assert _types(whole) == [{"type": "array", "items": filled}, "a.Size"]


def test_a_type_outside_of_any_namespace_stays_there() -> None:
    whole = inline_references(_order({"type": "map", "values": "Size"}), [json.dumps(SIZE)])
    assert _types(whole) == [{"type": "map", "values": {**SIZE, "namespace": ""}}]


def test_a_schema_that_refers_to_nothing_stays_as_it_was_written() -> None:
    assert inline_references(' {"type": "record"}', []) == ' {"type": "record"}'
