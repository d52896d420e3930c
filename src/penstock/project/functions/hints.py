"""SQL types as they are written in the hints of Python functions."""

import ast
from dataclasses import dataclass
from typing import Final

from penstock.errors import did_you_mean
from penstock.sql.types.columns import spark_type

_NAMED: Final = {
    **{
        name: name
        for name in (
            "BIGINT", "BINARY", "BOOLEAN", "DATE", "DOUBLE", "FLOAT", "INT", "SMALLINT", "STRING", "TIMESTAMP",
            "TINYINT",
        )
    },
    "bool": "BOOLEAN", "bytes": "BINARY", "date": "DATE", "datetime": "TIMESTAMP", "float": "DOUBLE", "int": "BIGINT",
    "str": "STRING",
}  # fmt: skip
"""The types of `penstock.functions`, and types of Python."""
_ARRAYS: Final = frozenset({"Array", "ChunkedArray", "Scalar", "RecordBatch", "Table", "Series", "ndarray"})
_EXAMPLE: Final = 'write STRING, DECIMAL(18, 4), or a SQL type as a text: "ARRAY<STRING>"'


@dataclass(frozen=True, slots=True)
class WrongHint:
    """A hint that is no SQL type, and what to write instead."""

    message: str
    hint: str


def hint_type(node: ast.expr) -> str | WrongHint:
    """Return the type of a hint in Spark SQL."""
    match node:
        case ast.Constant(value=str() as text):
            return _written_type(text)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _named_type(name)
        case ast.Call(func=ast.Name(id="DECIMAL") | ast.Attribute(attr="DECIMAL"), args=[*sizes], keywords=[]):
            return _decimal_type(node, sizes)
        case ast.Subscript(value=ast.Name(id="Annotated") | ast.Attribute(attr="Annotated"), slice=ast.Tuple(elts=e)):
            found = [hint_type(part) for part in e[1:]]
            return next((kind for kind in found if isinstance(kind, str)), found[0] if found else _unknown(node))
        case ast.BinOp(op=ast.BitOr()) | ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional")):
            text = f"`{ast.unparse(node)}` is not a SQL type"
            return WrongHint(text, "every value may be null; write the type alone, such as STRING")
        case _:
            return _unknown(node)


def _named_type(name: str) -> str | WrongHint:
    if name in _NAMED:
        return _NAMED[name]
    if name in ("DECIMAL", "Decimal"):
        return WrongHint(f"`{name}` has no precision", "write DECIMAL(18, 4), with the import from penstock.functions")
    if name in _ARRAYS:
        return WrongHint(f"`{name}` does not say the SQL type of the values", _EXAMPLE)
    return WrongHint(f"`{name}` is not a SQL type", did_you_mean(name, _NAMED, otherwise="types") or _EXAMPLE)


def _written_type(text: str) -> str | WrongHint:
    if text in _NAMED:
        return _NAMED[text]
    found = spark_type(text)
    if found is None:
        return WrongHint(f"`{text}` is not a SQL type", _EXAMPLE)
    if "DECIMAL" in found.replace("DECIMAL(", ""):
        return WrongHint(f"`{text}` has a DECIMAL without precision", "write DECIMAL(18, 4)")
    return found


def _decimal_type(node: ast.Call, sizes: list[ast.expr]) -> str | WrongHint:
    digits = [size.value for size in sizes if isinstance(size, ast.Constant) and isinstance(size.value, int)]
    if len(digits) != len(sizes) or not 1 <= len(sizes) <= 2:
        return WrongHint(f"`{ast.unparse(node)}` is not a SQL type", "write DECIMAL(18, 4): two numbers")
    text = f"DECIMAL({digits[0]}, {digits[1] if len(digits) > 1 else 0})"
    return spark_type(text) or WrongHint(f"`{text}` is not a SQL type", "1 to 38 digits, and not more after the point")


def _unknown(node: ast.expr) -> WrongHint:
    return WrongHint(f"`{ast.unparse(node)}` is not a SQL type", _EXAMPLE)
