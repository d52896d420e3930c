"""Keys of tombstones, decoded into the key columns of the deleted row: text, JSON, or Avro with a schema registry.

A wrong key would delete another row. So a key counts only if it is certainly the primary key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from penstock.clients.int256.avro import int256_fields, readable_schema
from penstock.clients.int256.columns import DerivedColumn
from penstock.clients.jvm.strict_json import checked_json
from penstock.clients.kafka import confluent_wire as wire
from penstock.spark_functions import f
from penstock.spark_internals.expressions import try_column

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

UNREADABLE: Final = "key-unreadable"
_SIMPLE: Final = frozenset({"string", "bytes", "int", "long", "float", "double", "boolean"})


@dataclass(frozen=True, slots=True)
class DecodedKey:
    """The columns of a key, by name, null if the key lacks them, and the fault of the key: a code, or null."""

    columns: Mapping[str, Column]
    fault: Column


def decode_key(
    types: Mapping[str, DataType], made: Mapping[str, DerivedColumn], schemas: wire.WriterSchemas | None
) -> DecodedKey:
    """Decode a key into columns, whose types are given in the key's order. A key that lacks one of them is a fault.

    Without `schemas`, keys in Avro cannot be read. With them, a key with an unknown schema stops the query.
    """
    if not types:
        return DecodedKey({}, f.lit(UNREADABLE))
    known = wire.WriterSchemas({}) if schemas is None else schemas
    of_registry = f.substring("key", 1, 1) == f.lit(wire.ZERO)
    texts, fields = _texts(list(types)), _fields(list(types), known)
    columns: dict[str, Column] = {}
    for name, kind in types.items():
        in_text = _cast_text(texts[name], kind, made.get(name))
        columns[name] = f.when(of_registry, _avro_column(name, kind, made.get(name), fields)).otherwise(in_text)
    fault = f.when(reduce(or_, (column.isNull() for column in columns.values())), UNREADABLE)
    if schemas is not None:
        is_known = wire.begins_with("key", [*known.writers, *known.unknown])
        is_unknown = of_registry & (f.length("key") > wire.HEAD) & ~is_known
        fault = f.when(is_unknown, wire.request_schema("key")).otherwise(fault)
        fault = f.when(wire.is_not_known_yet("key", known.since), UNREADABLE).otherwise(fault) if known.since else fault
    return DecodedKey(columns, fault)


def _cast_text(text: Column, kind: DataType, made: DerivedColumn | None) -> Column:
    """Cast text to this type; null if it does not fit. Spark would ignore control characters around numbers."""
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

    if made is not None:
        return f.when(f.is_valid_utf8(text), made.of_key(text))
    if isinstance(kind, BinaryType):
        return text.cast(kind)
    if isinstance(kind, ArrayType | MapType | StructType):
        return f.lit(None).cast(kind)
    if isinstance(kind, StringType):
        return f.when(f.is_valid_utf8(text), text)
    return f.when(f.is_valid_utf8(text) & ~text.rlike(r"\p{Cntrl}"), try_column(text.cast(kind)))


def _texts(names: Sequence[str]) -> dict[str, Column]:
    """Return the parts of a key as text: fields of a JSON object, a JSON string, or parts separated by colons."""
    text = f.col("key").cast("string")
    payload = f.get_json_object(text, "$.payload")
    within = f.when(payload.startswith("{"), payload).otherwise(text)
    fields = {name: f.get_json_object(within, f"$['{name}']") for name in names}
    parts = f.split(text, ":", len(names))
    plain = {name: f.try_element_at(parts, f.lit(place + 1)) for place, name in enumerate(names)}
    if len(names) == 1:
        (name,) = names
        alone = f.when(f.get_json_object(text, "$.schema").isNotNull() & ~payload.startswith("{"), payload)
        in_quotes = text.startswith('"') & text.endswith('"') & (f.length(text) > 1)
        fields = {name: f.coalesce(fields[name], alone)}
        plain = {name: f.coalesce(f.when(in_quotes, f.get_json_object(text, "$")), text)}
    is_object, is_one = text.startswith("{"), checked_json(f.col("key")).isNotNull()
    return {name: f.when(is_object, f.when(is_one, fields[name])).otherwise(plain[name]) for name in names}


@dataclass(frozen=True, slots=True)
class _Field:
    """The field of a column in keys of one schema, and its conversion if Spark has no type for it."""

    begins: Column
    read: Column
    carried: DerivedColumn | None


def _fields(names: Sequence[str], schemas: wire.WriterSchemas) -> dict[str, list[_Field]]:
    """Return, by column, its field in keys of each schema: one of the same name, or the whole key if it is alone."""
    from pyspark.sql.avro.functions import from_avro

    found: dict[str, list[_Field]] = {name: [] for name in names}
    body = f.expr(f"substring(key, {wire.HEAD + 1})")
    for number, writer in schemas.writers.items():
        begins = f.substring("key", 1, wire.HEAD) == f.lit(wire.schema_header(number))
        root = json.loads(wire.non_null_schema(writer))
        wanted = _select_key_schema(root, names)
        if wanted is None:
            continue
        options = {"mode": "FAILFAST", "avroSchema": readable_schema(json.dumps(wanted))}
        whole = try_column(from_avro(body, writer, options))
        if not isinstance(wanted, dict) or wanted.get("type") != "record":
            found[names[0]].append(_Field(begins, whole, None))
            continue
        carried = int256_fields(json.dumps(wanted))
        for field in wanted["fields"]:
            name = next(name for name in names if name.lower() == field["name"].lower())
            how = carried.get(field["name"])
            made = None if how is None else DerivedColumn(how.function, how.kind, how.scale)
            found[name].append(_Field(begins, whole[field["name"]], made))
    return found


def _select_key_schema(root: Any, names: Sequence[str]) -> Any | None:
    """Return the part of a key's schema that is read: the primary key's fields, or all; None if it lacks them."""
    if isinstance(root, dict) and root.get("type") == "record":
        lower = [name.lower() for name in names]
        fields = [field for field in root["fields"] if field["name"].lower() in lower and _is_simple(field["type"])]
        return {**root, "fields": fields} if len(fields) == len(names) else None
    return root if len(names) == 1 and _is_simple(root) else None


def _is_simple(schema: Any) -> bool:
    """Whether a type is a scalar one that is written out in full."""
    match schema:
        case str():
            return schema in _SIMPLE
        case list():
            return len(schema) == 2 and "null" in schema and all(part == "null" or _is_simple(part) for part in schema)
        case {"type": "fixed" | "enum"}:
            return True
        case {"type": inner}:
            return _is_simple(inner)
        case _:
            return False


def _avro_column(
    name: str, kind: DataType, made: DerivedColumn | None, fields: Mapping[str, Sequence[_Field]]
) -> Column:
    """Return a column of Avro keys, each decoded with its own schema."""
    column = f.lit(None)
    for field in fields[name]:
        if field.carried is None:
            value = _cast_text(field.read.cast("string"), kind, made)
        elif made is not None and made.kind == field.carried.kind:
            value = field.carried.of(field.read)
        else:
            continue
        column = f.when(field.begins, value).otherwise(column)
    return column
