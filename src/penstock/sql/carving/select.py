"""One SELECT and the relations it reads: whose column is whose, and rows as structs by alias.

Before an operator, the row of each relation is packed into a struct that is called like its alias. Behind it,
`o.amount` then still means what it did, and `o.*` too.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from penstock.keyed.operators import BEFORE, CLOCK, NOW, OP, ORDER, SIGN
from penstock.sql.carving.stages import ORDERED, RANK, Bench, Refusal, Relation

_INTERNAL: Final = frozenset({OP, SIGN, RANK, BEFORE, NOW})
_CARRIED: Final = re.compile(r"_[kp]\d+")
_OWN: Final = ("expressions", "where", "group", "having", "qualify", "windows", "order")


def own_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of the SELECT itself: not those of subqueries in it."""
    for name in _OWN:
        found = select.args.get(name)
        for root in found if isinstance(found, list) else [found]:
            if isinstance(root, exp.Expr):
                yield from _inside(root)
    for join in select.args.get("joins") or ():
        for name in ("on", "this"):
            root = join.args.get(name)
            if isinstance(root, exp.Expr) and (name == "on" or isinstance(root, exp.Lateral | exp.Unnest | exp.Table)):
                yield from _inside(root)


def _inside(root: exp.Expr) -> Iterator[exp.Expr]:
    return (node for node in root.walk(prune=lambda n: isinstance(n, exp.Query)) if not isinstance(node, exp.Query))


def own_columns(select: exp.Select) -> list[exp.Column]:
    return [node for node in own_nodes(select) if isinstance(node, exp.Column)]


def name_owners(select: exp.Select, relations: Sequence[Relation]) -> None:
    """Write the alias of its relation before every column that has none, and spell out a star over all of them."""
    aliases = [e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias)]
    for column in own_columns(select):
        _open_path(column, {r.alias.casefold() for r in relations})
    for column in own_columns(select):
        if column.table or isinstance(column.this, exp.Star) or column.name in _INTERNAL:
            continue
        owners = [r for r in relations if r.flow.columns is None or column.name.casefold() in r.flow.columns]
        sure = [r for r in owners if r.flow.columns is not None]
        if len(sure) == 1 or (len(relations) == 1 and column.name.casefold() not in aliases):
            column.set("table", exp.to_identifier((sure or list(relations))[0].alias, quoted=True))
        elif column.name.casefold() in aliases:
            continue
        elif len(owners) == 1:
            column.set("table", exp.to_identifier(owners[0].alias, quoted=True))
        else:
            raise Refusal(f"the column `{column.name}` without its input", column, "write the input's name before it")
    stars = [
        place for place, e in enumerate(select.expressions) if isinstance(e, exp.Star) and not e.args.get("except_")
    ]
    if stars:
        outputs = list(select.expressions)
        outputs[stars[0] : stars[0] + 1] = [star_of(r) for r in relations]
        select.set("expressions", outputs)


def _open_path(column: exp.Column, aliases: set[str]) -> None:
    """`payload.user.id` is a column and two fields, unless it begins with an alias."""
    parts = list(column.parts)
    owned = len(parts) > 1 and parts[0].name.casefold() in aliases
    head, fields = (parts[:2], parts[2:]) if owned else (parts[:1], parts[1:])
    if fields:
        table = head[0].copy() if owned else None
        first = exp.Column(this=head[-1].copy(), table=table)
        column.replace(exp.Dot.build([first, *(part.copy() for part in fields)]))


def resolve_aliases(select: exp.Select, clause: str) -> None:
    """In GROUP BY and HAVING, a number or the alias of an output stands for the output."""
    node = select.args.get(clause)
    outputs = {e.alias.casefold(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    for column in list(node.find_all(exp.Column)) if node else []:
        if not column.table and (meant := outputs.get(column.name.casefold())) is not None:
            column.replace(meant.copy())
    if clause == "group" and node:
        for literal in [e for e in node.expressions if isinstance(e, exp.Literal) and not e.is_string]:
            place = int(literal.this) - 1
            if 0 <= place < len(select.expressions):
                literal.replace(select.expressions[place].unalias().copy())


def packed(
    bench: Bench,
    select: exp.Select,
    relations: Sequence[Relation],
    extra: Iterable[exp.Expr],
    *,
    rows: bool = True,
    order: bool = False,
) -> exp.Select:
    """SELECT the rows of the relations as structs, and what else is asked for, from where `select` reads."""
    outputs = [struct for r in relations if (struct := _struct(select, r)) is not None] if rows else []
    inner = exp.Select(expressions=[*outputs, *(e.copy() for e in extra), clock()])
    for name in ("from_", "joins", "laterals", "where"):
        if (part := select.args.get(name)) is not None:
            inner.set(name, [p.copy() for p in part] if isinstance(part, list) else part.copy())
    if order:
        _with_order(bench, inner, relations)
    return inner


def _struct(select: exp.Select, relation: Relation) -> exp.Expr | None:
    alias = relation.alias.casefold()
    used = [c for c in own_columns(select) if c.table.casefold() == alias]
    if any(isinstance(c.this, exp.Star) for c in used):
        fields: list[exp.Expr] = [star_of(relation)]
    else:
        names = {c.name.casefold(): c for c in used}
        fields = [exp.alias_(c.copy(), c.name, quoted=True) for _, c in sorted(names.items())]
    if not fields:
        return None
    return exp.alias_(exp.Anonymous(this="struct", expressions=fields), relation.alias, quoted=True)


def is_hidden(name: str) -> bool:
    """Whether a column is one of ours that only carries a key."""
    return name == RANK or _CARRIED.fullmatch(name) is not None


def star_of(relation: Relation) -> exp.Column:
    """All columns of a relation but those that mark its changes."""
    mark = None if relation.packed else {"changes": OP, "signed": SIGN}.get(relation.flow.kind)
    star = exp.Star(except_=[exp.to_identifier(mark, quoted=True)]) if mark else exp.Star()
    return exp.Column(this=star, table=exp.to_identifier(relation.alias, quoted=True))


def blank_order() -> list[exp.Expr]:
    """The columns of the order where rows have none of their own."""
    blanks = {"bigint": exp.Literal.number(0), "string": exp.Literal.string("")}
    kinds = ("bigint", "string", "bigint", "bigint")
    return [exp.alias_(exp.cast(blanks[k].copy(), k), name) for k, name in zip(kinds, ORDER, strict=True)]


def clock() -> exp.Expr:
    """When the batch began."""
    now = exp.Anonymous(this=CLOCK)
    return exp.alias_(exp.Anonymous(this="unix_millis", expressions=[now]), NOW)


def _with_order(bench: Bench, inner: exp.Select, relations: Sequence[Relation]) -> None:
    """Where rows come straight from an input, they have an order; elsewhere only their batches do."""
    node = relations[0].node if len(relations) == 1 else None
    columns: list[exp.Expr]
    if isinstance(node, exp.Table) and node.name in bench.inputs:
        bench.ordered.add(node.name)
        table = exp.Table(this=exp.to_identifier(node.name + ORDERED, quoted=True))
        row = exp.alias_(exp.column("row"), relations[0].alias, quoted=True)
        source = exp.Select(expressions=[row, *(exp.column(name) for name in ORDER)]).from_(table, copy=False)
        inner.set("from_", exp.From(this=exp.Subquery(this=source, alias=exp.TableAlias(this=exp.to_identifier("_r")))))
        columns = [exp.column(name) for name in ORDER]
    else:
        columns = blank_order()
    inner.set("expressions", [*inner.expressions, *columns])


def read_from(select: exp.Select, view: str, alias: str | None = None) -> None:
    """Let the SELECT read a view instead of what it read."""
    table = exp.Table(this=exp.to_identifier(view, quoted=True))
    if alias is not None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    select.set("from_", exp.From(this=table))
    for name in ("joins", "laterals"):
        select.set(name, None)


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    return [*conjuncts(condition.left), *conjuncts(condition.right)] if isinstance(condition, exp.And) else [condition]


def tables_in(node: exp.Expr) -> set[str]:
    return {column.table.casefold() for column in node.find_all(exp.Column)}
