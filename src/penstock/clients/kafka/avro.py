"""Avro as a schema registry writes it: a zero, the number of the writer's schema, then the value."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.clients.kafka.records import VALUE, Decoded, Made
from penstock.clients.spark_expressions import tried
from penstock.clients.wide.avro import as_read, fields_of

_HEAD: Final = 5
_MARK: Final = "is not known yet: schema "
"""What the failure of a query says when a record has a schema that nobody has asked for."""


@dataclass(frozen=True, slots=True)
class AvroSchemas:
    """The schema that rows are read into, those that records were written with, by number, and numbers of none."""

    reader: str
    writers: Mapping[int, str]
    unknown: frozenset[int] = frozenset()


def avro_value(schemas: AvroSchemas, at: str = VALUE, within: tuple[str, ...] = ()) -> Decoded:
    """Every record by its own writer's schema, as the reader's wants it. A number that is new stops the query.

    It is found in the column `at`. The row is the record itself, or one of its fields, which are then named.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.avro.functions import from_avro

    begins, body = f.substring("value", 1, _HEAD), f.expr(f"substring(value, {_HEAD + 1})")
    options = {"mode": "FAILFAST", "avroSchema": as_read(schemas.reader)}

    value = f.lit(None)
    for number, writer in schemas.writers.items():
        value = f.when(begins == f.lit(head(number)), tried(from_avro(body, writer, options))).otherwise(value)
    known = begins.isin([head(number) for number in schemas.writers])
    fault = (
        f.when((f.length("value") < _HEAD) | (f.substring("value", 1, 1) != f.lit(b"\0")), "not-avro")
        .when(known, f.when(f.col(at).isNull(), "avro-unreadable"))
        .when(begins.isin([head(number) for number in schemas.unknown]), "schema-id-unknown")
        .otherwise(f.raise_error(f.concat(f.lit(_MARK), f.hex(f.substring("value", 2, 4)))))
    )
    carried = fields_of(schemas.reader, within)
    made = {name: Made(how.function, how.kind, how.scale) for name, how in carried.items()}
    return Decoded(value, f.col(at).isNotNull(), fault, made=made)


def narrowed(schema: str, names: Collection[str]) -> str:
    """A record's schema with only those fields whose names are wanted, in lower case: Avro passes over the others.

    Fields whose types have names stay, since others may refer to them.
    """
    record = json.loads(schema)
    if not isinstance(record, dict) or record.get("type") != "record":
        return schema
    fields = record["fields"]
    kept = [field for field in fields if field["name"].lower() in names or _defines(field["type"])] or fields[:1]
    return json.dumps({**record, "fields": kept})


def _defines(kind: Any) -> bool:
    """Whether a type, or one within it, has a name that others can use."""
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


def asked_for(failure: str) -> int | None:
    """The number of the schema for whose sake a query failed."""
    found = re.search(_MARK + "([0-9A-F]{8})", failure)
    return int(found[1], 16) if found else None


def head(number: int) -> bytes:
    """What a value begins with that was written by the schema of this number."""
    return bytes([0, *number.to_bytes(4, "big")])
