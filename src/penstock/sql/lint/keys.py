"""Find keys that do not identify rows: their value differs at each call, or their type has no order."""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from penstock.sql.catalog.function_names import written_name
from penstock.sql.parse.query import Problem, Query, argument_problem, offset_of
from penstock.sql.parse.window_tvf import SPANS
from penstock.sql.types.families import KnownTypes

_CLASSES: Final = (exp.Rand, exp.Randn, exp.Uuid, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime)
_NAMES: Final = frozenset(
    {
        "CURRENT_ROW_TIMESTAMP", "MONOTONICALLY_INCREASING_ID", "NOW", "PROCTIME", "RANDOM", "RANDSTR", "RAND_INTEGER",
        "SHUFFLE", "SPARK_PARTITION_ID", "UNIFORM",
    }
)  # fmt: skip
_HINT: Final = "compute it once, in a column of the model that is read, and use that column here"


def nondeterministic_keys(query: Query) -> Iterator[Problem]:
    """Report nondeterministic functions in keys of groups, partitions and joins."""
    for clause, key in _keys(query.tree):
        for node in key.find_all(*_CLASSES, exp.Anonymous):
            if is_nondeterministic(node) and not _is_in_window(node, key):
                word = written_name(node)
                text = f"{clause} has {word}, whose value differs at each call"
                yield Problem("sql-nondeterministic-key", text, _function_offset(query, node, word), _HINT, word)


def unordered_keys(typed: exp.Expr, types: KnownTypes) -> Iterator[Problem]:
    """Report maps in keys of groups, partitions, joins and DISTINCT."""
    for clause, key in (*_keys(typed), *_distinct_outputs(typed)):
        for value in (key.this, key.expression) if clause == "JOIN" else (key.unalias(),):
            kind = types.type_of(value)
            if kind is not None and any(part.this is exp.DType.MAP for part in kind.find_all(exp.DataType)):
                text = f"{clause} has a MAP as its key, and maps cannot be compared"
                hint = "take an element of it: m['key'], or make a text of it: JSON_STRING(m)"
                yield argument_problem(value, text, hint, clause)
                break


def _distinct_outputs(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for select in tree.find_all(exp.Select):
        if select.args.get("distinct"):
            yield from (("DISTINCT", output) for output in select.expressions)


def _keys(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for node in tree.find_all(exp.Group, exp.Window, exp.Join):
        match node:
            case exp.Group():
                for key in node.expressions:
                    yield "GROUP BY", _resolve_key(key, node.parent)
            case exp.Window():
                for key in node.args.get("partition_by") or ():
                    yield "PARTITION BY", key
            case exp.Join() if isinstance(condition := node.args.get("on"), exp.Expr):
                yield from (("JOIN", equality) for equality in condition.find_all(exp.EQ, exp.NullSafeEQ))
            case _:
                pass


def _resolve_key(key: exp.Expr, select: exp.Expr | None) -> exp.Expr:
    """Return the output that a key names or gives by number; otherwise the key itself."""
    outputs = select.expressions if isinstance(select, exp.Select) else []
    if isinstance(key, exp.Literal) and key.is_int:
        return outputs[int(key.name) - 1] if 0 < int(key.name) <= len(outputs) else key
    if not isinstance(key, exp.Column) or key.table:
        return key
    same = (o for o in outputs if isinstance(o, exp.Alias) and o.alias.casefold() == key.name.casefold())
    return next(same, key)


def is_nondeterministic(node: exp.Expr) -> bool:
    """Whether a node is a nondeterministic function."""
    if isinstance(node, exp.Anonymous):
        name = node.name.upper()
        return name in _NAMES or (name == "UNIX_TIMESTAMP" and not node.expressions)
    return isinstance(node, _CLASSES)


def _is_in_window(node: exp.Expr, key: exp.Expr) -> bool:
    """Whether a node is an argument of a window in the key. A window over processing time is a valid key."""
    parent = node.parent
    while parent is not None and node is not key:
        if isinstance(parent, exp.Anonymous) and parent.name.upper() in SPANS:
            return True
        node, parent = parent, parent.parent
    return False


def _function_offset(query: Query, node: exp.Expr, word: str) -> int:
    """Return the offset of a function. One without brackets is searched in the text."""
    if isinstance(start := node.meta.get("start"), int):
        return start
    found = [token.start for token in query.dialect.tokenize(query.text) if token.text.upper() == word]
    return found[-1] if found else offset_of(node)
