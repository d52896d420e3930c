"""Find by name the input columns that a query in stages uses.

A column is referenced by its name or by a star. A star passes columns on under their names, so it uses only those
columns that a later stage names.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from penstock.sql.parse.dialects import SPARK, parse_spark
from penstock.sql.stateful.stages import ORDERED

ColumnNames: TypeAlias = frozenset[str] | None
"""Names of columns in lower case; None for all columns."""


@dataclass(frozen=True, slots=True)
class SqlUse:
    """A view made by SQL."""

    view: str
    sql: str


@dataclass(frozen=True, slots=True)
class OperatorUse:
    """A view made by an operator, which needs the columns `own` of its inputs and passes on the others."""

    view: str
    inputs: tuple[str, ...]
    own: frozenset[str]


def used_columns(
    steps: Iterable[SqlUse | OperatorUse], outputs: Collection[str], expressions: Mapping[str, Iterable[str]]
) -> dict[str, ColumnNames] | None:
    """Return the used column names of every view; None if they cannot be determined.

    All columns of the `outputs` are used, and those in the `expressions` over a view.
    """
    used: dict[str, ColumnNames] = dict.fromkeys(outputs, None)
    for view, texts in expressions.items():
        _add_names(used, view, _expression_names(texts) if texts else frozenset())
    parsed = [(step, parse_spark(step.sql) if isinstance(step, SqlUse) else None) for step in steps]
    packed = frozenset(name for _, tree in parsed if tree is not None for name in _struct_names(tree))
    for step, tree in reversed(parsed):
        behind = used.get(step.view, frozenset())
        match step:
            case OperatorUse():
                needed = None if behind is None else behind | step.own
                for view in step.inputs:
                    _add_names(used, view, needed)
            case SqlUse() if tree is not None:
                names = _used_names(tree, behind, packed)
                for table in tree.find_all(exp.Table):
                    _add_names(used, table.name.removesuffix(ORDERED), names)
            case _:
                return None
    return used


def _add_names(used: dict[str, ColumnNames], view: str, names: ColumnNames) -> None:
    before = used.get(view, frozenset())
    used[view] = None if before is None or names is None else before | names


def _expression_names(texts: Iterable[str]) -> ColumnNames:
    tree = parse_spark(f"SELECT {', '.join(texts)}")
    return None if tree is None else _used_names(tree, None, frozenset())


def _used_names(tree: exp.Expr, behind: ColumnNames, packed: frozenset[str]) -> ColumnNames:
    """Return the names that a query uses of its input, given the outputs that are used of the query."""
    if any(join.method == "NATURAL" for join in tree.find_all(exp.Join)) or _needs_whole_row(tree, packed):
        return None
    named = frozenset(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    if not stars:
        return named
    if behind is None or tree.find(exp.SetOperation) or not all(map(_is_pass_through, stars)):
        return None
    return named | behind


def _is_pass_through(star: exp.Star) -> bool:
    """Whether a star only passes on columns, as outputs or as the fields of a struct that is an output."""
    node: exp.Expr = star.parent if isinstance(star.parent, exp.Column) else star
    if node.parent is not None and _is_struct(node.parent):
        node = node.parent.parent if isinstance(node.parent.parent, exp.Alias) else node.parent
    select = node.parent
    if not isinstance(select, exp.Select) or select.args.get("distinct") or select.args.get("group"):
        return False
    return node.arg_key == "expressions"


def drop_unused_outputs(sql: str, names: ColumnNames) -> str:
    """Remove the outputs of a query that are not used, if that changes nothing else."""
    tree = parse_spark(sql)
    if names is None or not isinstance(tree, exp.Select) or tree.args.get("distinct") or tree.args.get("group"):
        return sql
    mentioned = Counter(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))
    named = [(e, e.alias_or_name.lower()) for e in tree.expressions]
    kept = [e for e, name in named if name in names or mentioned[name] > 1 or not _is_plain(e)]
    if not kept or len(kept) == len(tree.expressions):
        return sql
    tree.set("expressions", kept)
    return tree.sql(SPARK)


def _is_plain(output: exp.Expr) -> bool:
    """Whether an output is computed from its row alone. An output that unnests arrays makes several rows of one."""
    return not output.is_star and output.find(exp.UDTF, exp.Explode, exp.AggFunc, exp.Window, exp.Anonymous) is None


def needs_state(sql: str) -> bool:
    """Whether Spark may keep state for a query by itself: for a join, a group or a deduplication."""
    tree = parse_spark(sql)
    return tree is None or tree.find(exp.Join, exp.Group, exp.Distinct, exp.AggFunc) is not None


def _is_struct(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Struct) or (isinstance(node, exp.Anonymous) and str(node.this).upper() == "STRUCT")


def _struct_names(tree: exp.Expr) -> Iterable[str]:
    """Return the names of structs that hold whole rows: a star made them, or they are rows with their order."""
    for alias in tree.find_all(exp.Alias):
        row = isinstance(alias.this, exp.Column) and alias.this.name == _ROW
        if row or (_is_struct(alias.this) and alias.this.find(exp.Star)):
            yield alias.alias.lower()


_ROW = "row"
"""The name of the struct with the whole row, where rows carry their order."""


def _needs_whole_row(tree: exp.Expr, packed: frozenset[str]) -> bool:
    """Whether a row is used as a whole and not by its fields."""
    return any(
        column.name.lower() in packed or (column.name == _ROW and not isinstance(column.parent, exp.Alias))
        for column in tree.find_all(exp.Column)
        if not isinstance(column.this, exp.Star)
    )
