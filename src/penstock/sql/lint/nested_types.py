"""Find wrong uses of arrays, maps and rows: elements and fields that cannot exist, and UNNEST of other types."""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from penstock.errors import did_you_mean
from penstock.sql.parse.query import Problem, argument_problem, start_of
from penstock.sql.types.columns import type_text
from penstock.sql.types.families import KnownTypes, family_of_type


def check_element(node: exp.Bracket, types: KnownTypes, *, in_flink: bool) -> Iterator[Problem]:
    family = types.family_of(node.this)
    if family not in (None, "nested"):
        text = f"[…] takes an element of an array or a map, and is given {type_text(types.type_of(node.this))}"
        hint = "SUBSTRING(text, 1, 1) takes a character, SPLIT_INDEX(text, ',', 0) a part" if family == "text" else None
        yield argument_problem(node, text, hint or "take the value itself", "[]")
    elif in_flink and len(node.expressions) == 1 and (whole := types.type_of(node.this)) is not None:
        key = node.expressions[0]
        is_map = whole.this is exp.DType.MAP and len(whole.expressions) == 2
        wanted = family_of_type(whole.expressions[0]) if is_map else "number" if whole.this is exp.DType.ARRAY else None
        found = types.family_of(key)
        is_index = wanted == "number" and not is_map and isinstance(key, exp.Column | exp.Cast)
        too_wide = is_index and type_text(types.type_of(key)) not in _INDEX_TYPES
        if found is not None and wanted is not None and (found != wanted or too_wide):
            owner = "a key of this map" if is_map else "the number of an element"
            named = type_text(whole.expressions[0]) if is_map else "INT"
            text = f"{owner} is {named}, and this is {type_text(types.type_of(key))}"
            hint = f"write CAST(… AS {named})" if is_map or too_wide else "the first element has the number 1"
            yield argument_problem(node, text, hint, "[]")


_INDEX_TYPES: Final = (None, "TINYINT", "SMALLINT", "INT")
"""The types that Spark accepts as the index of an element, and an unknown type."""


def check_field(node: exp.Dot, types: KnownTypes) -> Iterator[Problem]:
    """Report `a.b` where `a` is not a row, or a row without the field `b`."""
    name, whole = node.expression.name, types.type_of(node.this)
    if whole is None or not isinstance(node.expression, exp.Identifier) or _can_be_input(node):
        return
    place = node.expression.meta.get("start", start_of(node))
    owner = node.this.output_name
    if whole.this is exp.DType.STRUCT:
        fields = [field.name for field in whole.expressions if isinstance(field, exp.ColumnDef)]
        if fields and name.casefold() not in {field.casefold() for field in fields}:
            hint = did_you_mean(name, fields, otherwise="fields")
            yield Problem("sql-unknown-column", f"`{owner}` has no field `{name}`", place, hint, name)
    elif types.family_of(node.this) not in (None, "nested"):
        text = f"`{owner}` is {type_text(whole)}, and has no field `{name}`"
        yield Problem("sql-unknown-column", text, place, "only a ROW has fields", name)


def _can_be_input(node: exp.Dot) -> bool:
    """Whether `a` in `a.b` may be an input: of a SEMI JOIN, or a row of a pattern."""
    name = node.this.output_name.casefold()
    inputs = {table.alias_or_name.casefold() for table in node.root().find_all(exp.Table, exp.Subquery)}
    return name in inputs or node.find_ancestor(exp.MatchRecognize) is not None


# UNNEST

_OPEN: Final = (exp.DType.UNKNOWN, exp.DType.NULL)


def check_unnest(node: exp.Unnest, types: KnownTypes) -> Iterator[Problem]:
    """Report UNNEST that Spark would refuse at the start of the query, as far as types are known."""
    given = node.expressions[0] if node.expressions else None
    kind = types.type_of(given) if given is not None else None
    if given is None or kind is None or kind.this in _OPEN:
        return
    if kind.this not in (exp.DType.ARRAY, exp.DType.MAP):
        text = f"UNNEST takes an array or a map, and is given {type_text(kind)}"
        hint = "name a column that is an array or a map; convert a text with SPLIT(text, ',')"
        yield argument_problem(given, text, hint, "UNNEST")
        return
    alias = node.args.get("alias")
    names = alias.columns if alias is not None else []
    count = _column_count(kind)
    if names and count is not None and len(names) != count:
        text = f"UNNEST of {type_text(kind)} makes {count} column{'s' if count != 1 else ''}, and is given {len(names)}"
        text += f" name{'s' if len(names) != 1 else ''}"
        numbered = ", and one more for the number" if node.args.get("offset") else ""
        yield argument_problem(given, text, f"write {_example(kind)}{numbered}", "UNNEST")


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
