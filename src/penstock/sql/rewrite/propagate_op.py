"""Carry the operation of a row (`_gs_op`) through the SQL of pipelines: always in the output, and only once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from sqlglot import exp

from penstock.row_columns import OP
from penstock.sql.parse.query import Query

_LocalCtes: TypeAlias = Mapping[str, exp.CTE]


def add_op_output(query: Query) -> Query:
    """Add `_gs_op` to the outputs of a query. A projection that has it already stays unchanged."""

    def edit(tree: exp.Query) -> exp.Query:
        _add_op(tree, {cte.alias.casefold(): cte for cte in tree.find_all(exp.CTE)}, set())
        return tree

    return query.with_edit(edit)


def _add_op(node: exp.Expr, local: _LocalCtes, done: set[int], names: list[exp.Expr] | None = None) -> None:
    """Add the operation to the outputs of a query, and to the column `names` of its alias if there are any."""
    if id(node) in done:
        return
    done.add(id(node))
    branches = list(_branches(node))
    for branch in branches:
        _add_op_to_source(branch, local, done)
    if names is not None and OP not in (name.name.casefold() for name in names):
        names.append(exp.to_identifier(OP, quoted=True))
        for branch in branches:
            _move_op_last(branch, again=True)
    elif len(branches) > 1:
        _align_branches(branches)
    else:
        for branch in branches:
            if not any(map(_has_op, branch.expressions)):
                branch.append("expressions", _op_column(branch))


def _branches(node: exp.Expr) -> Iterator[exp.Select]:
    """Return the SELECTs that a query's rows come from; several for a union."""
    match node:
        case exp.SetOperation():
            yield from _branches(node.left)
            yield from _branches(node.right)
        case exp.Subquery():
            yield from _branches(node.this)
        case exp.Select() if node.args.get("from_") is not None:
            yield node


def _add_op_to_source(select: exp.Select, local: _LocalCtes, done: set[int]) -> None:
    """Add the operation to what a SELECT reads."""
    match select.args["from_"].this:
        case exp.Subquery() as inner:
            _add_op(inner.this, local, done, _column_names(inner))
        case exp.Table() as table if table.name.casefold() in local and not table.db:
            cte = local[table.name.casefold()]
            _add_op(cte.this, local, done, _column_names(cte))


def _column_names(named: exp.Expr) -> list[exp.Expr] | None:
    alias = named.args.get("alias")
    return (alias.args.get("columns") or None) if alias is not None else None


def _op_column(select: exp.Select) -> exp.Column:
    origin = select.args["from_"].this
    return exp.column(OP, table=origin.alias_or_name or None, quoted=True)


def _align_branches(branches: Sequence[exp.Select]) -> None:
    """Put the operation at the same position in all branches."""
    if all(len(branch.expressions) == 1 and isinstance(branch.expressions[0], exp.Star) for branch in branches):
        return
    if any(projection.is_star for branch in branches for projection in branch.expressions):
        for branch in branches:
            _move_op_last(branch)
        return
    widths = [(place, len(branch.expressions)) for branch in branches if (place := _op_index(branch)) is not None]
    for branch in branches:
        outputs = list(branch.expressions)
        place, width = widths[0] if widths else (len(outputs), len(outputs) + 1)
        # A branch with as many columns has one there already, which only the other branch names.
        if _op_index(branch) is None and len(outputs) != width:
            outputs.insert(place, _op_column(branch))
            branch.set("expressions", outputs)


def _op_index(select: exp.Select) -> int | None:
    """Return the position of the operation in a SELECT without a star; None if it is not named."""
    names = [projection.output_name.casefold() for projection in select.expressions]
    return names.index(OP) if OP in names else None


def _move_op_last(select: exp.Select, *, again: bool = False) -> None:
    """Move the operation to the end. With `again`, one that has another name outside stays, and one is added."""
    outputs: list[exp.Expr] = []
    last: exp.Expr = _op_column(select)
    for projection in select.expressions:
        if projection.is_star:
            star = projection.find(exp.Star)
            if star is not None and _has_op(projection):
                star.append("except_", exp.column(OP, quoted=True))
        if not again and not projection.is_star and projection.output_name.casefold() == OP:
            last = projection
        else:
            outputs.append(projection)
    select.set("expressions", [*outputs, last])


def _has_op(projection: exp.Expr) -> bool:
    """Whether an output is the operation, or a star that includes it."""
    if not projection.is_star:
        return projection.output_name.casefold() == OP
    star = projection.find(exp.Star)
    left_out = (star.args.get("except_") or []) if star is not None else []
    return OP not in {column.name.casefold() for column in left_out}
