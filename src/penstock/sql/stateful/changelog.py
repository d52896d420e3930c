"""SELECT over changes: a row that is filtered out becomes a delete, and a grouping needs the old row of an update."""

from dataclasses import replace

from sqlglot import exp

from penstock.keyed.operators import LatestPerKey
from penstock.row_columns import OP, ORDER, SIGN, WAS
from penstock.sql.stateful.qualify import internal_column
from penstock.sql.stateful.select import blank_order, clock_column, own_columns, read_view, relation_star
from penstock.sql.stateful.stages import ORDERED, Flow, QueryRelation, StageBuilder
from penstock.sql.stateful.stateless import stateless_flow


def signed_view(plan: StageBuilder, relation: QueryRelation) -> str:
    """Return a view of a relation's changes as signed rows. It keeps the last row of every key."""
    node = relation.node
    if not relation.flow.key:
        return plan.sql(sign_changes(node.copy()))
    if isinstance(node, exp.Table) and node.name in plan.inputs:
        source = _ordered_select(plan, relation, clock_column())
    else:
        source = exp.Select(expressions=[exp.Star(), *blank_order(), clock_column()]).from_(node.copy(), copy=False)
    return plan.operator(LatestPerKey(keys=relation.flow.key, ttl_ms=plan.ttl_ms), plan.sql(source))


def sign_changes(node: exp.Expr) -> exp.Select:
    """Convert changes of whole rows, which are inserted or deleted only, to signed rows."""
    gone = exp.column(OP, quoted=True).eq("d")
    sign = exp.cast(exp.Case().when(gone, "-1").else_("1"), "tinyint")
    star = exp.Star(except_=[exp.to_identifier(OP, quoted=True)])
    return exp.Select(expressions=[star, exp.alias_(sign, SIGN)]).from_(node, copy=False)


def read_signed_rows(select: exp.Select, relation: QueryRelation, view: str) -> QueryRelation:
    """Make a SELECT read the signed rows of a relation under the same alias."""
    read_view(select, view, None if relation.packed else relation.alias, joins=True)
    now = replace(relation, node=select.args["from_"].this, flow=replace(relation.flow, kind="signed"))
    for column in own_columns(select):
        if isinstance(column.this, exp.Star) and column.table.casefold() == relation.alias.casefold():
            column.replace(relation_star(now))
    return now


def read_ordered_changes(plan: StageBuilder, select: exp.Select, relation: QueryRelation) -> QueryRelation:
    """Make a SELECT read the changes of an input with their arrival order."""
    view = plan.sql(_ordered_select(plan, relation))
    read_view(select, view, relation.alias, joins=True)
    hidden = relation.flow.hidden | set(ORDER)
    return replace(relation, node=select.args["from_"].this, flow=replace(relation.flow, hidden=hidden))


def add_change_order(select: exp.Select, flow: Flow) -> Flow:
    """Add the arrival order to the outputs of a SELECT that forwards changes, to find the last change of a key."""
    order: list[exp.Expr] = [internal_column(name) for name in ORDER]
    select.set("expressions", [*select.expressions, *order, exp.alias_(internal_column(OP), WAS, quoted=True)])
    return replace(flow, repeated=True)


def _ordered_select(plan: StageBuilder, relation: QueryRelation, *extra: exp.Expr) -> exp.Select:
    name = relation.node.name
    plan.ordered.add(name)
    table = exp.Table(this=exp.to_identifier(name + ORDERED, quoted=True))
    fields = exp.Column(this=exp.Star(), table=exp.to_identifier("row"))
    order: list[exp.Expr] = [exp.column(column) for column in ORDER]
    return exp.Select(expressions=[fields, *order, *extra]).from_(table, copy=False)


def forward_changes(select: exp.Select, relations: list[QueryRelation], flow: Flow) -> Flow:
    """Forward changes through a stateless SELECT: the change columns and the key are added to the outputs."""
    outputs = replace(stateless_flow(select, relations), watermarked=flow.watermarked)
    if flow.kind == "rows":
        return outputs
    names = [key_output(select, relations[0], name) for name in flow.key]
    if flow.kind == "signed":
        key = tuple(name for name in names if name is not None) if len(relations) == 1 else ()
        select.set("expressions", [*select.expressions, exp.column(SIGN)])
        return replace(outputs, kind="signed", key=key if len(key) == len(names) else ())
    hidden = [free_name(f"_k{place}", outputs) for place in range(len(names))]
    key_columns = [
        exp.alias_(_key_column(relations[0], column), other)
        for column, name, other in zip(flow.key, names, hidden, strict=True)
        if name is None
    ]
    key = tuple(name or other for name, other in zip(names, hidden, strict=True))
    _pass_changes(select)
    select.set("expressions", [*select.expressions, *key_columns])
    return replace(outputs, kind="changes", key=key, hidden=frozenset(e.alias for e in key_columns))


def key_output(select: exp.Select, relation: QueryRelation, name: str) -> str | None:
    """Return the output that shows a column of the key; None if there is none."""
    column = relation.shown.get(name) if relation.packed else None if name in relation.flow.hidden else name
    for e in select.expressions:
        inner = e.unalias()
        if not isinstance(inner, exp.Column):
            continue
        if isinstance(inner.this, exp.Star):
            if column is not None:
                return column
            continue
        wanted = column if inner.table else name
        if wanted is not None and inner.name.casefold() == wanted.casefold():
            return str(e.alias_or_name)
    return None


def free_name(name: str, flow: Flow) -> str:
    """Return a name that no output has."""
    while flow.has(name):
        name += "_"
    return name


def _key_column(relation: QueryRelation, name: str) -> exp.Expr:
    return internal_column(name) if relation.packed else exp.column(name, table=relation.alias, quoted=True)


def _pass_changes(select: exp.Select) -> None:
    """Pass the operation on, and turn a row that the WHERE condition excludes into a delete."""
    where = select.args.get("where")
    operation: exp.Expr = exp.column(OP, quoted=True)
    if where is not None:
        holds = exp.func("COALESCE", where.this.copy(), exp.false())
        operation = exp.Case().when(holds, exp.column(OP, quoted=True)).else_("'d'")
        kept = exp.or_(exp.column(OP, quoted=True).neq("i"), holds.copy())
        select.set("where", exp.Where(this=kept))
    select.set("expressions", [*select.expressions, exp.alias_(operation, OP, quoted=True)])
