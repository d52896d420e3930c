"""Find UNNEST of types other than arrays and maps, and with a wrong number of names."""

from collections.abc import Iterator

from sqlglot import exp

from penstock.sql.parse.query import Problem, start_of
from penstock.sql.types.columns import type_text
from penstock.sql.types.families import KnownTypes

_OPEN = (exp.DType.UNKNOWN, exp.DType.NULL)


def wrong_unnest(node: exp.Unnest, types: KnownTypes) -> Iterator[Problem]:
    """Report UNNEST that Spark would refuse at the start of the query, as far as types are known."""
    given = node.expressions[0] if node.expressions else None
    kind = types.type_of(given) if given is not None else None
    if given is None or kind is None or kind.this in _OPEN:
        return
    if kind.this not in (exp.DType.ARRAY, exp.DType.MAP):
        text = f"UNNEST takes an array or a map, and is given {type_text(kind)}"
        hint = "name a column that is an array or a map; convert a text with SPLIT(text, ',')"
        yield Problem("sql-argument", text, start_of(given), hint, "UNNEST")
        return
    alias = node.args.get("alias")
    names = alias.columns if alias is not None else []
    count = _column_count(kind)
    if names and count is not None and len(names) != count:
        text = f"UNNEST of {type_text(kind)} makes {count} column{'s' if count != 1 else ''}, and is given {len(names)}"
        text += f" name{'s' if len(names) != 1 else ''}"
        numbered = ", and one more for the number" if node.args.get("offset") else ""
        yield Problem("sql-argument", text, start_of(given), f"write {_example(kind)}{numbered}", "UNNEST")


def _column_count(kind: exp.DataType) -> int | None:
    if kind.this is exp.DType.MAP:
        return 2
    element = kind.expressions[0] if kind.expressions else None
    if element is None or (isinstance(element, exp.DataType) and element.this in _OPEN):
        return None
    is_row = isinstance(element, exp.DataType) and element.this is exp.DType.STRUCT
    return (len(element.expressions) or None) if is_row else 1


def _example(kind: exp.DataType) -> str:
    if kind.this is exp.DType.MAP:
        return "AS u(k, v): a name for the keys and one for the values"
    return "AS u(element)" if _column_count(kind) == 1 else "a name for each field of its rows"
