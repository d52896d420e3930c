"""Confluent's wire format (a zero byte, the id of the writer's schema, the value), and facts about schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from penstock.row_columns import CLOCK
from penstock.spark_functions import f

if TYPE_CHECKING:
    from pyspark.sql import Column

HEAD: Final = 5
ZERO: Final = b"\0"
UNKNOWN_SCHEMA: Final = "is not known yet: schema "
"""The start of a query's failure for a record with an unknown schema. Its id follows in hexadecimal."""


@dataclass(frozen=True, slots=True)
class WriterSchemas:
    """Writers' schemas by id, and ids without a schema.

    `since` has, for some ids, when they became known, in milliseconds since 1970: batches from before are read without
    them.
    """

    writers: Mapping[int, str]
    unknown: frozenset[int] = frozenset()
    since: Mapping[int, int] = field(default_factory=dict)


def schema_header(number: int) -> bytes:
    """Return the header of bytes that were written with a schema id."""
    return ZERO + number.to_bytes(4, "big")


def begins_with(column: str, numbers: Iterable[int]) -> Column:
    """Whether bytes were written with one of these schemas."""
    return f.substring(column, 1, HEAD).isin([schema_header(number) for number in numbers])


def is_not_known_yet(column: str, since: Mapping[int, int]) -> Column:
    """Whether bytes were written with a schema that was not known when their batch began."""
    now = f.expr(f"{CLOCK}()") if since else f.lit(None)
    early = (begins_with(column, [number]) & (now < f.timestamp_millis(f.lit(at))) for number, at in since.items())
    return reduce(or_, early, f.lit(False))


def request_schema(column: str) -> Column:
    """Stop the query for an unknown schema: `runtime.spark.errors.unknown_schema` parses its id."""
    return f.raise_error(f.concat(f.lit(UNKNOWN_SCHEMA), f.hex(f.substring(column, 2, 4))))


def non_null_schema(schema: str) -> str:
    """Return the schema of values that are not null."""
    root = json.loads(schema)
    return schema if _null_index(root) is None else json.dumps(root[1 - root.index("null")])


def make_nullable(schema: str, like: str) -> str:
    """Allow null for a record, if another schema does: in the same order, and under the same name."""
    root = json.loads(like)
    if (at := _null_index(root)) is None:
        return schema
    names = {key: root[1 - at][key] for key in ("name", "namespace") if key in root[1 - at]}
    own = {**json.loads(schema), **names}
    return json.dumps(["null", own] if at == 0 else [own, "null"])


def has_same_fields(schema: str, other: str) -> bool:
    """Whether two records have the same fields with the same types; order, names and defaults may differ."""
    one, another = (_field_types(json.loads(non_null_schema(text))) for text in (schema, other))
    return one is not None and one == another


def _field_types(record: Any) -> dict[str, Any] | None:
    if not isinstance(record, dict) or record.get("type") != "record":
        return None
    return {field["name"]: _strip_type(field["type"]) for field in record["fields"]}


def _strip_type(kind: Any) -> Any:
    """Return a type without what does not change its bytes."""
    match kind:
        case list():
            return sorted(map(_strip_type, kind), key=repr)
        case {"type": str(name), **more} if not more.keys() - {"avro.java.string"}:
            return name
        case {"type": "array", "items": inner}:
            return {**kind, "items": _strip_type(inner)}
        case {"type": "map", "values": inner}:
            return {**kind, "values": _strip_type(inner)}
        case _:
            return kind


def null_encodings(writers: Mapping[int, str]) -> list[bytes]:
    """Return the bytes of a null value, for those schemas that allow null."""
    found = {number: _null_index(json.loads(schema)) for number, schema in writers.items()}
    return [schema_header(number) + bytes([2 * at]) for number, at in found.items() if at is not None]


def _null_index(root: Any) -> int | None:
    """Return the position of null in a union with one other type."""
    return root.index("null") if isinstance(root, list) and len(root) == 2 and "null" in root else None
