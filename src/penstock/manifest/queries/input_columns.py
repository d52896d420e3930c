"""The columns that a query uses of its inputs, and their types, which define its state."""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from penstock.keyed.operators import Operator
from penstock.manifest.model import KeyedStep, Manifest, QuerySpec, Step
from penstock.row_columns import NOW, OP, ORDER, SIGN
from penstock.sql.analyze.used_columns import ColumnNames, OperatorUse, SqlUse, needs_state, used_columns
from penstock.sql.types.columns import Column, Columns

RESERVED = frozenset({NOW, OP, SIGN, *ORDER})
"""Columns that Penstock adds to rows."""


def used_input_columns(query: QuerySpec) -> dict[str, ColumnNames]:
    """The columns that a query uses of each input, by view, in lower case; None: all columns."""
    used = used_view_columns(query)
    return {entry.view: used[entry.view] for entry in query.inputs}


def used_view_columns(query: QuerySpec) -> dict[str, ColumnNames]:
    """The columns that are used of each input and step, by view, in lower case; None: all columns."""
    steps = [
        SqlUse(step.view, step.sql)
        if isinstance(step, Step)
        else OperatorUse(step.view, step.inputs, _operator_names(step.operator))
        for step in query.steps
    ]
    expressions: dict[str, list[str]] = {}
    for check in query.checks:
        expressions.setdefault(check.view, []).extend(check.expressions)
    used = used_columns(steps, [output.view for output in query.outputs], expressions)
    views = [part.view for part in (*query.inputs, *query.steps)]
    return {view: None if used is None else used.get(view, frozenset()) for view in views}


def has_operators(query: QuerySpec) -> bool:
    """Whether it has Penstock operators."""
    return any(isinstance(step, KeyedStep) for step in query.steps)


def only_operators_keep_rows(query: QuerySpec) -> bool:
    """Whether only Penstock operators keep rows of its inputs. State of Spark's operators cannot get another column."""
    return has_operators(query) and not any(needs_state(step.sql) for step in query.steps if isinstance(step, Step))


def used_column_types(columns: Mapping[str, Columns | None], query: QuerySpec) -> dict[str, dict[str, str]]:
    """The known types of the columns that a query uses, by the views of its inputs."""
    used = used_input_columns(query)
    return {
        view: {
            column.name: column.type
            for column in columns.get(view) or ()
            if column.type is not None and (names is None or column.name.lower() in names)
        }
        for view, names in used.items()
        if columns.get(view) is not None
    }


def declared_columns(manifest: Manifest, query: QuerySpec) -> dict[str, dict[str, str]]:
    """The columns that documents declare, or that follow from them."""
    known = {node.id: tuple(Column(c.name, c.type) for c in node.columns or ()) for node in manifest.dag.nodes}
    return used_column_types({entry.view: known.get(entry.node) or None for entry in query.inputs}, query)


def _operator_names(operator: Operator) -> frozenset[str]:
    """Every column name in an operator's settings, and the reserved columns."""
    return frozenset(map(str.lower, _texts(operator))) | RESERVED


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        value = list(value.values())
    return [text for part in value for text in _texts(part)] if isinstance(value, list | tuple) else []
