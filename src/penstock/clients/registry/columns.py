"""Columns and keys of a schema: an Avro record or a JSON schema."""

import json
from typing import Any, Final

from penstock.clients.int256.avro import int256_decimal
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.columns import Column, Columns
from penstock.sql.types.long_decimals import SPARK_DIGITS

_AVRO: Final = {
    "string": "STRING", "bytes": "BINARY", "int": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "boolean": "BOOLEAN", "enum": "STRING", "fixed": "BINARY",
}  # fmt: skip
_AVRO_LOGICAL: Final = {
    "date": "DATE", "timestamp-millis": "TIMESTAMP", "timestamp-micros": "TIMESTAMP",
    "local-timestamp-millis": "TIMESTAMP_NTZ", "local-timestamp-micros": "TIMESTAMP_NTZ", "uuid": "STRING",
}  # fmt: skip
_DOCS: Final = ("doc", "connect.doc")
_JSON: Final = {"string": "STRING", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN"}
_JSON_FORMATS: Final = {"date-time": "TIMESTAMP", "date": "DATE"}


def columns_of(definition: str, form: str) -> Columns | None:
    """Return the columns of a schema; None if unknown, as with Protobuf. ValueError for an invalid schema."""
    if form == "protobuf":
        return None
    try:
        schema = json.loads(definition)
        return _check_distinct(_columns(_record(schema) if form == "avro" else schema, form))
    except json.JSONDecodeError as error:
        raise ValueError(f"the definition is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("the definition is nested too deeply") from None


def key_of(definition: str) -> tuple[str, ...]:
    """Return the key columns in the `doc` of an Avro record: `{"primaryKeys": […]}`."""
    try:
        record = _record(json.loads(definition))
        said = [json.loads(record[place]) for place in _DOCS if isinstance(record.get(place), str)]
    except (ValueError, AttributeError, RecursionError):
        return ()
    keys = next((found["primaryKeys"] for found in said if isinstance(found, dict) and "primaryKeys" in found), ())
    return tuple(map(str, keys)) if isinstance(keys, list) else ()


def _record(schema: Any) -> Any:
    """Return the record of a schema, also if the value may be null."""
    match schema:
        case ["null", record] | [record, "null"]:
            return record
        case _:
            return schema


def _check_distinct(columns: Columns) -> Columns:
    seen: set[str] = set()
    for column in columns:
        if column.name.casefold() in seen:
            raise ValueError(f"the column `{column.name}` is there twice; names are not case-sensitive")
        seen.add(column.name.casefold())
    return columns


def _columns(schema: Any, form: str) -> Columns:
    match form, schema:
        case "json", {"properties": dict() as properties}:
            return tuple(Column(name, _json_type(inner)) for name, inner in properties.items())
        case "avro", {"type": "record", "fields": list() as fields} if all(map(_is_field, fields)):
            return tuple(Column(field["name"], _column_type(field["type"])) for field in fields)
        case "avro", _:
            raise ValueError("an Avro schema of rows is a record with a list of fields, each with a name and a type")
        case _:
            raise ValueError("a JSON schema of rows is an object with properties")


def _is_field(field: Any) -> bool:
    return isinstance(field, dict) and isinstance(field.get("name"), str) and "type" in field


def _column_type(schema: Any) -> str | None:
    wide = int256_decimal(schema)
    return _avro_type(schema) if wide is None else wide.type


def _avro_type(schema: Any) -> str | None:
    match schema:
        case str():
            return _AVRO.get(schema)
        case list():
            inner = [part for part in schema if part != "null"]
            return _avro_type(inner[0]) if len(inner) == 1 else None
        case {"logicalType": "decimal", "precision": int(precision)} if precision > SPARK_DIGITS:
            return "BINARY"  # inside of other values they are left as they are
        case {"logicalType": "decimal", "precision": int(precision)}:
            return f"DECIMAL({precision}, {schema.get('scale', 0)})"
        case {"logicalType": str(logical)} if logical in _AVRO_LOGICAL:
            return _AVRO_LOGICAL[logical]
        case {"type": "array", "items": items}:
            return _format_type("ARRAY<{}>", _avro_type(items))
        case {"type": "map", "values": values}:
            return _format_type("MAP<STRING, {}>", _avro_type(values))
        case {"type": "record", "fields": list() as fields} if all(map(_is_field, fields)):
            return _struct({field["name"]: _avro_type(field["type"]) for field in fields})
        case {"type": inner}:
            return _avro_type(inner)
        case _:
            return None


def _json_type(schema: Any) -> str | None:
    match schema:
        case {"type": list() as types}:
            inner = [part for part in types if part != "null"]
            return _json_type({**schema, "type": inner[0]}) if len(inner) == 1 else None
        case {"type": "string", "format": str(form)} if form in _JSON_FORMATS:
            return _JSON_FORMATS[form]
        case {"type": "array", "items": items}:
            return _format_type("ARRAY<{}>", _json_type(items))
        case {"type": "object", "properties": dict() as properties}:
            return _struct({name: _json_type(inner) for name, inner in properties.items()})
        case {"type": str(name)}:
            return _JSON.get(name)
        case _:
            return None


def _format_type(pattern: str, inner: str | None) -> str | None:
    return None if inner is None else pattern.format(inner)


def _struct(fields: dict[str, str | None]) -> str | None:
    if not fields or any(kind is None for kind in fields.values()):
        return None
    return f"STRUCT<{', '.join(f'{quote_spark_identifier(name)}: {kind}' for name, kind in fields.items())}>"
