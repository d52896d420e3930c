"""Schemas of Avro that leave out what nobody reads."""

import json

from penstock.clients.kafka.avro import narrowed


def _record(**fields: object) -> str:
    return json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    )


def _names(schema: str) -> list[str]:
    return [field["name"] for field in json.loads(schema)["fields"]]


def test_fields_that_nobody_wants_are_left_out() -> None:
    schema = _record(Id="long", name="string", price={"type": "bytes", "logicalType": "decimal"}, tags=["null", "int"])
    assert _names(narrowed(schema, {"id", "price"})) == ["Id", "price"]


def test_one_field_stays_if_only_rows_are_counted() -> None:
    assert _names(narrowed(_record(id="long", name="string"), ())) == ["id"]


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
    assert _names(narrowed(schema, {"ship"})) == ["bill", "ship", "lots", "hash"]


def test_values_that_are_no_records_stay_as_they_are() -> None:
    assert narrowed('"string"', {"x"}) == '"string"'
    assert narrowed('["null", "string"]', {"x"}) == '["null", "string"]'
