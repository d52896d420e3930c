"""Conversion of Spark's types to Avro."""

import re
from collections.abc import Iterable
from typing import Any, Final

from sqlglot import exp

from penstock.sql.types.columns import Column, data_type
from penstock.sql.types.flink_inference import TIMESTAMPS, WHOLE

SIGNED: Final = "penstock.type"
"""The attribute that marks a signed number. Without it, the type would be read as unsigned by its precision."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final[dict[exp.DType, Any]] = {
    exp.DType.BOOLEAN: "boolean",
    **dict.fromkeys(WHOLE, "int"),
    exp.DType.BIGINT: "long",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
    exp.DType.BINARY: "bytes",
    exp.DType.VARBINARY: "bytes",
    exp.DType.DATE: {"type": "int", "logicalType": "date"},
    **{kind: {"type": "long", "logicalType": "timestamp-micros"} for kind in TIMESTAMPS},
    exp.DType.TIMESTAMPNTZ: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def avro_record(name: str, columns: Iterable[Column], doc: str | None = None) -> dict[str, Any]:
    """Build a record schema with these columns, all nullable. Raise ValueError for a column that Avro cannot have."""
    fields = [_field(name, column.name, column.type) for column in columns]
    return {"type": "record", "name": _record_name(name), **({"doc": doc} if doc else {}), "fields": fields}


def _field(record: str, name: str, kind: str | None) -> dict[str, Any]:
    if not _NAME.fullmatch(name):
        raise ValueError(f"`{name}` cannot be the name of a field in Avro: it takes letters, digits and `_`")
    if kind is None:
        raise ValueError(f"the type of `{name}` is not known")
    return {"name": name, "type": ["null", _type(f"{record}_{name}", data_type(kind))], "default": None}


def _type(name: str, kind: exp.DataType) -> Any:
    """Return the Avro type of a Spark type. `name` is used if it is a record."""
    match kind.this:
        case exp.DType.DECIMAL:
            precision, scale = ([int(size.name) for size in kind.expressions] + [10, 0][len(kind.expressions) :])[:2]
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case exp.DType.UINT256:
            return {"type": "bytes", "logicalType": "decimal", "precision": 78, "scale": 0}
        case exp.DType.INT256:
            return {"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 0, SIGNED: "i256"}
        case exp.DType.ARRAY:
            return {"type": "array", "items": ["null", _type(name, kind.expressions[0])]}
        case exp.DType.MAP:
            return {"type": "map", "values": ["null", _type(name, kind.expressions[1])]}
        case exp.DType.STRUCT:
            fields = [_field(name, part.name, part.args["kind"].sql("spark")) for part in kind.expressions]
            return {"type": "record", "name": _record_name(name), "fields": fields}
        case text if text in exp.DataType.TEXT_TYPES:
            return "string"
        case other if other in _PLAIN:
            return _PLAIN[other]
        case _:
            raise ValueError(f"Avro has no type for `{kind.sql('spark')}`")


def _record_name(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return f"_{plain}" if plain[:1].isdigit() else plain
