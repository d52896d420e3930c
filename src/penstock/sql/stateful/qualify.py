"""Qualify the columns of a SELECT: each gets the alias of its relation, and one spelling."""

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from penstock.sql.parse.replacement import replace_node
from penstock.sql.stateful.select import own_columns, relation_star
from penstock.sql.stateful.stages import QueryRelation, UnsupportedStream, unowned_column

_OURS: Final = "ours"


def internal_column(name: str) -> exp.Column:
    """Build a column that planning adds, and that belongs to no relation."""
    column = exp.column(name, quoted=True)
    column.meta[_OURS] = True
    return column


def qualify_columns(select: exp.Select, relations: Sequence[QueryRelation], *, strict: bool = True) -> None:
    """Add the alias of its relation to every column without one, and qualify stars.

    Without `strict`, a column of an unknown relation stays unchanged.
    """
    by_alias = {r.alias.casefold(): r for r in relations}
    _keep_output_names(select)
    for column in own_columns(select):
        _split_path(column, by_alias)
    aliases = {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias)}
    for column in own_columns(select):
        if isinstance(column.this, exp.Star) or column.meta.get(_OURS):
            continue
        if column.table:
            owner = by_alias.get(column.table.casefold())
        else:
            owner = _find_owner(select, column, relations, aliases, strict=strict)
        if owner is not None:
            _set_owner(column, owner)
    if strict:
        _qualify_stars(select, relations, by_alias)


def _keep_output_names(select: exp.Select) -> None:
    """Add aliases, so that outputs keep the spelling of their names when the columns are renamed."""
    for e in list(select.expressions):
        name = e.output_name
        if isinstance(e, exp.Column | exp.Dot) and not e.is_star and name != name.casefold():
            replace_node(e, exp.alias_(e.copy(), name, quoted=True))


def _find_owner(
    select: exp.Select, column: exp.Column, relations: Sequence[QueryRelation], aliases: set[str], *, strict: bool
) -> QueryRelation | None:
    name = column.name.casefold()
    sure = [r for r in relations if r.flow.has(name)]
    if len(sure) == 1 or (len(relations) == 1 and name not in aliases):
        return (sure or list(relations))[0]
    if len(sure) > 1 and (join := _using_join(select, name)) is not None and join.side != "FULL":
        return sure[-1] if join.side == "RIGHT" else sure[0]
    if name in aliases:
        return None
    owners = [r for r in relations if r.flow.has(name) is not False]
    if len(owners) == 1:
        return owners[0]
    if strict:
        raise unowned_column(column)
    return None


def _using_join(select: exp.Select, name: str) -> exp.Join | None:
    """Return the join that merges two columns of this name; None if there is none."""
    joins = select.args.get("joins") or ()
    return next((j for j in joins if any(u.name.casefold() == name for u in j.args.get("using") or ())), None)


def _set_owner(column: exp.Column, owner: QueryRelation) -> None:
    """Write a column in one spelling, so that equal expressions are equal."""
    column.this.set("this", column.name.casefold())
    column.this.set("quoted", True)
    if column.table != owner.alias:
        column.set("table", exp.to_identifier(owner.alias, quoted=True))
    else:
        column.args["table"].set("quoted", True)


def _split_path(column: exp.Column, aliases: Mapping[str, QueryRelation]) -> None:
    """Split `payload.user.id` into a column and two fields, unless it begins with an alias."""
    parts = list(column.parts)
    owned = len(parts) > 1 and parts[0].name.casefold() in aliases
    head, fields = (parts[:2], parts[2:]) if owned else (parts[:1], parts[1:])
    if fields:
        table = head[0].copy() if owned else None
        first = exp.Column(this=head[-1].copy(), table=table)
        names = [exp.to_identifier(part.name.casefold(), quoted=True) for part in fields]
        replace_node(column, exp.Dot.build([first, *names]))


def _qualify_stars(
    select: exp.Select, relations: Sequence[QueryRelation], by_alias: Mapping[str, QueryRelation]
) -> None:
    outputs: list[exp.Expr] = []
    for e in select.expressions:
        if isinstance(e, exp.Star) and not e.args.get("except_"):
            if len(relations) > 1 and any(j.args.get("using") for j in select.args.get("joins") or ()):
                raise UnsupportedStream("* over USING", select, "name the columns")
            outputs += [relation_star(r) for r in relations]
        elif isinstance(e, exp.Column) and isinstance(e.this, exp.Star) and e.table.casefold() in by_alias:
            outputs.append(e if e.this.args.get("except_") else relation_star(by_alias[e.table.casefold()]))
        else:
            outputs.append(e)
    select.set("expressions", outputs)


def expand_stars(select: exp.Select, relations: Sequence[QueryRelation]) -> bool:
    """Replace stars by their columns. Return False if these are not known."""
    by_alias = {r.alias.casefold(): r for r in relations}
    outputs: list[exp.Expr] = []
    for e in select.expressions:
        if not e.is_star:
            outputs.append(e)
            continue
        owner = by_alias.get(e.table.casefold()) if isinstance(e, exp.Column) else None
        if owner is None or owner.flow.columns is None:
            return False
        for name in owner.flow.columns:
            column = exp.column(name.casefold(), table=owner.alias, quoted=True)
            outputs.append(exp.alias_(column, name, quoted=True))
    select.set("expressions", outputs)
    return True


def resolve_aliases(select: exp.Select, *roots: exp.Expr | None) -> None:
    """Replace the alias of an output by the output's expression."""
    outputs = {e.alias.casefold(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    for root in roots:
        for column in list(root.find_all(exp.Column)) if root is not None else ():
            meant = None if column.table else outputs.get(column.name.casefold())
            if meant is not None and not column.meta.get(_OURS):
                replace_node(column, meant.copy())


def resolve_ordinals(select: exp.Select, clause: exp.Group) -> None:
    """Replace an output's number in GROUP BY by the output's expression."""
    for literal in [e for e in clause.expressions if isinstance(e, exp.Literal) and not e.is_string]:
        place = int(literal.this) - 1
        if 0 <= place < len(select.expressions):
            literal.replace(select.expressions[place].unalias().copy())
