"""SELECT over changes: a row that is left out must go where it was, and a grouping must know what went."""

from dataclasses import replace

from sqlglot import exp

from penstock.keyed.operators import OP, ORDER, SIGN, Latest
from penstock.sql.carving.select import blank_order, clock, own_columns, read_from, star_of
from penstock.sql.carving.stages import ORDERED, Bench, Relation


def signed_view(bench: Bench, relation: Relation) -> str:
    """A view of a relation of changes as rows that come and go; it keeps the last row of every key."""
    node = relation.node
    if not relation.flow.key:
        return bench.sql(signed(node.copy()))
    if isinstance(node, exp.Table) and node.name in bench.inputs:
        bench.ordered.add(node.name)
        table = exp.Table(this=exp.to_identifier(node.name + ORDERED, quoted=True))
        fields = exp.Column(this=exp.Star(), table=exp.to_identifier("row"))
        order: list[exp.Expr] = [exp.column(name) for name in ORDER]
        source = exp.Select(expressions=[fields, *order, clock()]).from_(table, copy=False)
    else:
        source = exp.Select(expressions=[exp.Star(), *blank_order(), clock()]).from_(node.copy(), copy=False)
    return bench.operator(Latest(keys=relation.flow.key, ttl_ms=bench.ttl_ms), bench.sql(source))


def signed(node: exp.Expr) -> exp.Select:
    """Changes of whole rows, which only come or go, as signed rows."""
    gone = exp.column(OP, quoted=True).eq("d")
    sign = exp.cast(exp.Case().when(gone, "-1").else_("1"), "tinyint")
    star = exp.Star(except_=[exp.to_identifier(OP, quoted=True)])
    return exp.Select(expressions=[star, exp.alias_(sign, SIGN)]).from_(node, copy=False)


def read_signed(select: exp.Select, relation: Relation, view: str) -> Relation:
    """Let a SELECT read the signed rows of a relation under the same alias."""
    read_from(select, view, relation.alias)
    now = replace(relation, node=select.args["from_"].this, flow=replace(relation.flow, kind="signed"), packed=False)
    for column in own_columns(select):
        if isinstance(column.this, exp.Star) and column.table.casefold() == relation.alias.casefold():
            column.replace(star_of(now))
    return now


def pass_changes(select: exp.Select) -> None:
    """A SELECT without memory over changes: the operation goes along, and a row that is left out is a delete."""
    where = select.args.get("where")
    operation: exp.Expr = exp.column(OP, quoted=True)
    if where is not None:
        holds = exp.func("COALESCE", where.this.copy(), exp.false())
        operation = exp.Case().when(holds, exp.column(OP, quoted=True)).else_("'d'")
        kept = exp.or_(exp.column(OP, quoted=True).neq("i"), holds.copy())
        select.set("where", exp.Where(this=kept))
    outputs = [*select.expressions, exp.alias_(operation, OP, quoted=True)]
    select.set("expressions", outputs)


def pass_signs(select: exp.Select) -> None:
    """A SELECT without memory over rows that come and go: the sign goes along."""
    select.set("expressions", [*select.expressions, exp.column(SIGN)])
