"""Find columns that are neither grouped nor aggregated, and misplaced aggregates."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from penstock.sql.catalog.function_names import is_group_aggregate, needs_over, written_name
from penstock.sql.lint.unresolved_columns import readable_names
from penstock.sql.parse.query import Problem, Query, start_of
from penstock.sql.parse.window_calls import parse_window_call
from penstock.sql.parse.window_tvf import WINDOW_COLUMNS
from penstock.sql.types.columns import Columns

_SETS: Final = (exp.GroupingSets, exp.Rollup, exp.Cube)


def find_ungrouped(scope: Scope, inputs: Mapping[str, Columns | None]) -> Iterator[Problem]:
    """Report columns of outputs and HAVING that have many values in one group. Each column is reported once."""
    select = scope.expression
    group = select.args.get("group")
    if not isinstance(select, exp.Select) or group is None or group.args.get("all") or group.find(*_SETS):
        return  # the keys are not those in the text
    read = readable_names(scope, inputs)
    outputs = {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias)} - (read or set())
    keys = [key for written in group.expressions for key in _resolve_key(written, select, read)]
    if select.is_star and (read or set()) - {key.name.casefold() for key in keys if isinstance(key, exp.Column)}:
        text = "`*` beside GROUP BY has columns that are neither grouped nor aggregated"
        yield Problem("sql-not-grouped", text, start_of(group), "name the outputs", "*")
    having = select.args.get("having")
    checked = [*(projection.unalias() for projection in select.expressions), *([having.this] if having else ())]
    seen: set[str] = set()
    for node in checked:
        for column in _ungrouped_columns(node, keys):
            name = column.name.casefold()
            if name in seen or (not column.table and name in outputs):
                continue
            seen.add(name)
            text = f"`{column.name}` is neither grouped nor aggregated"
            yield Problem("sql-not-grouped", text, start_of(column), _grouping_hint(column, keys), column.name)


def _grouping_hint(column: exp.Column, keys: Sequence[exp.Expr]) -> str:
    for key in keys:
        call = parse_window_call(key)
        if call is not None and call.time is not None and _is_same_value(column, call.time):
            return f"{call.kind}_START(…) and {call.kind}_END(…) are the ends of the window"
        if isinstance(key, exp.Tuple):
            return "write the keys of GROUP BY without brackets"
    return f"add it to GROUP BY, or take one value of each group: MAX({column.name})"


def _resolve_key(key: exp.Expr, select: exp.Select, read: set[str] | None) -> list[exp.Expr]:
    """Resolve a key of GROUP BY: an expression, or an output by its number or name unless an input has that name."""
    outputs = select.expressions
    if isinstance(key, exp.Literal) and key.is_int:
        return [outputs[int(key.name) - 1].unalias()] if 0 < int(key.name) <= len(outputs) else []
    if not isinstance(key, exp.Column) or key.table or (read is not None and key.name.casefold() in read):
        return [key.unnest()]
    named = [e.this for e in outputs if isinstance(e, exp.Alias) and e.alias.casefold() == key.name.casefold()]
    return [key, *named]


def _ungrouped_columns(node: exp.Expr, keys: Sequence[exp.Expr]) -> Iterator[exp.Column]:
    """Return the columns in an expression that no key and no aggregate covers."""
    if any(_is_same_value(node, key) for key in keys):
        return
    if isinstance(node, exp.Query | exp.Window | exp.Lambda | exp.Filter) or is_group_aggregate(node):
        return  # checked elsewhere, or on its own
    if parse_window_call(node) is not None:
        return  # a window column, which is compared with the grouped window elsewhere
    if isinstance(node, exp.Column):
        if "start" in node.this.meta and not _is_key_part(node, keys):  # generated columns are not reported
            yield node
        return
    for child in node.iter_expressions():
        yield from _ungrouped_columns(child, keys)


def _is_key_part(column: exp.Column, keys: Sequence[exp.Expr]) -> bool:
    """Whether a column is a field of a key, or the time of a window whose start and end are keys."""
    plain = {key.name.casefold() for key in keys if isinstance(key, exp.Column)}
    if any(part.name.casefold() in plain for part in column.parts[:-1]):
        return True
    return column.name.casefold() in WINDOW_COLUMNS and bool(plain & set(WINDOW_COLUMNS))


def _is_same_value(node: exp.Expr, key: exp.Expr) -> bool:
    """Whether two expressions have the same value: names in any case, with or without their table."""
    one, other = node.unnest(), key.unnest()
    if isinstance(one, exp.Column) and isinstance(other, exp.Column):
        tables = {table.casefold() for table in (one.table, other.table) if table}
        return one.name.casefold() == other.name.casefold() and len(tables) < 2
    if one == other:
        return True
    ours, theirs = list(one.iter_expressions()), list(other.iter_expressions())
    alike = type(one) is type(other) and len(ours) == len(theirs) and _text_arguments(one) == _text_arguments(other)
    if not alike or not ours:
        return False
    swapped = isinstance(one, exp.Add | exp.Mul | exp.EQ | exp.And | exp.Or) and _are_same(ours, theirs[::-1])
    return swapped or _are_same(ours, theirs)


def _are_same(nodes: Sequence[exp.Expr], keys: Sequence[exp.Expr]) -> bool:
    return all(_is_same_value(a, b) for a, b in zip(nodes, keys, strict=True))


def _text_arguments(node: exp.Expr) -> list[tuple[str, str]]:
    """Return the string arguments of a node, as opposed to its child nodes."""
    return [(name, value.casefold()) for name, value in node.args.items() if isinstance(value, str)]


# Aggregates


def misplaced_aggregates(query: Query) -> Iterator[Problem]:
    """Report aggregates that have no groups yet: in WHERE, ON and GROUP BY, or inside another aggregate."""
    for node in query.tree.find_all(exp.AggFunc, exp.Anonymous):
        if not is_group_aggregate(node) or needs_over(node):
            continue
        word, around = written_name(node), node.parent
        while around is not None and not isinstance(around, exp.Query | exp.Window | exp.Where | exp.Join | exp.Group):
            if is_group_aggregate(around):
                text, hint = f"{word} is used inside {written_name(around)}", "compute one of them in a subquery"
                yield Problem("sql-not-grouped", text, start_of(node), hint, word)
                break
            around = around.parent
        if isinstance(around, exp.Where | exp.Join | exp.Group):
            clause = {exp.Where: "WHERE", exp.Join: "ON", exp.Group: "GROUP BY"}[type(around)]
            hint = "write it in HAVING, after GROUP BY" if clause == "WHERE" else "compute it in a subquery"
            text = f"{word} is used in {clause}, before rows are grouped"
            yield Problem("sql-not-grouped", text, start_of(node), hint, word)
