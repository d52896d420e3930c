"""Avro in Confluent's wire format: a zero byte, the id of the writer's schema, the value."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.clients.int256.avro import int256_fields, readable_schema
from penstock.clients.int256.columns import DerivedColumn
from penstock.clients.kafka import confluent_wire as wire
from penstock.clients.kafka.decode import VALUE, DecodedValue
from penstock.spark_functions import f
from penstock.spark_internals.expressions import try_column


@dataclass(frozen=True, slots=True)
class AvroSchemas:
    """The reader's schema, and those of writers."""

    reader: str
    writers: Mapping[int, str]
    unknown: frozenset[int] = frozenset()
    since: Mapping[int, int] = field(default_factory=dict)


def avro_value(schemas: AvroSchemas, at: str = VALUE, within: tuple[str, ...] = ()) -> DecodedValue:
    """Decode every record with its writer's schema into the reader's. An unknown id stops the query.

    The value is in the column `at`. The row is the record, or one of its fields if they are named. A value that is null
    by its schema counts as no value.
    """
    from pyspark.sql.avro.functions import from_avro

    begins, body = f.substring("value", 1, wire.HEAD), f.expr(f"substring(value, {wire.HEAD + 1})")
    options = {"mode": "FAILFAST", "avroSchema": readable_schema(wire.non_null_schema(schemas.reader))}

    value, early = f.lit(None), wire.is_not_known_yet("value", schemas.since)
    for number, writer in schemas.writers.items():
        decoded = try_column(from_avro(body, writer, options))
        value = f.when(begins == f.lit(wire.schema_header(number)), decoded).otherwise(value)
    value = f.when(~early, value) if schemas.since else value
    fault = (
        f.when((f.length("value") < wire.HEAD) | (f.substring("value", 1, 1) != f.lit(wire.ZERO)), "not-avro")
        .when(early, "schema-id-unknown")
        .when(wire.begins_with("value", schemas.writers), f.when(f.col(at).isNull(), "avro-unreadable"))
        .when(wire.begins_with("value", schemas.unknown), "schema-id-unknown")
        .otherwise(wire.request_schema("value"))
    )
    carried = int256_fields(schemas.reader, within)
    made = {name: DerivedColumn(how.function, how.kind, how.scale) for name, how in carried.items()}
    nothing = wire.null_encodings(schemas.writers)
    absent = ~early & f.col("value").isin(nothing) if nothing else None
    return DecodedValue(value, f.col(at).isNotNull(), fault, made=made, absent=absent)


def select_fields(schema: str, names: Collection[str]) -> str:
    """Return a record's schema with only the wanted fields (in lower case): Avro skips the others.

    Fields that define named types stay, since others may refer to them.
    """
    record = json.loads(wire.non_null_schema(schema))
    if not isinstance(record, dict) or record.get("type") != "record":
        return schema
    fields = record["fields"]
    kept = [field for field in fields if field["name"].lower() in names or _defines(field["type"])] or fields[:1]
    return json.dumps({**record, "fields": kept})


def _defines(kind: Any) -> bool:
    """Whether a type defines a name that others can refer to."""
    match kind:
        case list():
            return any(map(_defines, kind))
        case {"type": "array", "items": within} | {"type": "map", "values": within}:
            return _defines(within)
        case {"type": "record" | "enum" | "fixed"}:
            return True
        case {"type": dict() | list() as within}:
            return _defines(within)
        case _:
            return False
