"""carve: a tree becomes stages. Subqueries first, then the SELECT around them: joins, then what stands on them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.sql.carving.changes import pass_changes, pass_signs, read_signed, signed_view
from penstock.sql.carving.groups import group, is_aggregate
from penstock.sql.carving.joins import is_operator_join, join_changes, join_versions
from penstock.sql.carving.late import closing, is_closed_here
from penstock.sql.carving.overs import over, over_calls
from penstock.sql.carving.ranks import Ranked, rank, ranked
from penstock.sql.carving.select import is_hidden, name_owners, own_nodes
from penstock.sql.carving.stages import Bench, Flow, Refusal, Relation, Stage
from penstock.sql.query import Problem
from penstock.sql.windows import follow


@dataclass(frozen=True, slots=True)
class Carved:
    """A query in stages. `tree` reads the last of them; `ordered` are the inputs whose rows need their order.

    The key of changes is that of the outputs; it is empty when the outputs do not tell. `unbounded` has the constructs
    whose state grows for ever, with their offsets.
    """

    tree: exp.Query
    flow: Flow
    stages: tuple[Stage, ...] = ()
    ordered: frozenset[str] = frozenset()
    unbounded: tuple[tuple[str, int], ...] = ()
    problem: Problem | None = None


def carve(
    tree: exp.Query,
    view: str,
    tables: Mapping[str, Flow],
    inputs: Collection[str],
    ttl_ms: int | None = None,
    *,
    nested: bool = False,
) -> Carved:
    """The tree is used up. A query that needs none of this comes back as it was.

    `inputs` are the tables that are read from outside. A `nested` query is read by another one in the same stream.
    """
    bench = Bench(view, tables, inputs, ttl_ms, follow(tree))
    try:
        flow = _query(bench, tree, nested=nested)
    except Refusal as refusal:
        return Carved(tree, Flow(), problem=refusal.problem)
    tree, flow = _finished(tree, flow)
    return Carved(tree, flow, tuple(bench.stages), frozenset(bench.ordered), tuple(bench.unbounded))


def _finished(tree: exp.Query, flow: Flow) -> tuple[exp.Query, Flow]:
    """The outputs without the columns that only carried a key."""
    hidden = [name for name in flow.key if is_hidden(name)]
    if flow.kind != "changes" or not hidden:
        return tree, flow
    star = exp.Star(except_=[exp.to_identifier(name, quoted=True) for name in hidden])
    inner = exp.Subquery(this=tree, alias=exp.TableAlias(this=exp.to_identifier("_all")))
    return exp.Select(expressions=[star]).from_(inner, copy=False), replace(flow, key=())


def _query(bench: Bench, query: exp.Expr, *, nested: bool = True) -> Flow:
    with_ = query.args.get("with_")
    outer = dict(bench.local)
    for cte in with_.expressions if with_ is not None else ():
        flow = _query(bench, cte.this)
        bench.local[cte.alias.casefold()] = Relation(cte.alias, cte.this, flow)
    match query:
        case exp.Select():
            flow = _select(bench, query, nested=nested)
        case exp.SetOperation():
            flow = _union(bench, query)
        case exp.Subquery():
            flow = _query(bench, query.this, nested=nested)
        case _:
            flow = Flow()
    if with_ is not None and bench.stages:
        query.set("with_", None)
        _put_in_place(query, bench.local)
    bench.local = outer
    return flow


def _put_in_place(query: exp.Expr, local: Mapping[str, Relation]) -> None:
    """Stages cannot see the CTEs of the query: put each in where it is read."""
    for table in list(query.find_all(exp.Table)):
        if not table.db and (cte := local.get(table.name.casefold())) is not None:
            alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
            inner = exp.Subquery(this=cte.node.copy(), alias=alias)
            _put_in_place(inner, local)
            table.replace(inner)


def _union(bench: Bench, union: exp.SetOperation) -> Flow:
    sides = [_query(bench, side) for side in (union.left, union.right)]
    if any(side.kind != "rows" for side in sides):
        raise Refusal("UNION of changes", union, "put the rows together before they are grouped or joined")
    if isinstance(union, exp.Intersect):
        raise Refusal("INTERSECT", union, "use an inner join")
    if isinstance(union, exp.Union) and union.args.get("distinct"):
        raise Refusal("UNION", union, "write UNION ALL, and SELECT DISTINCT in a model that reads it")
    one, other = sides
    columns = one.columns
    return Flow(
        columns=columns,
        times=one.times & other.times,
        watermarked=one.watermarked and other.watermarked,
        lateness_ms=max(one.lateness_ms, other.lateness_ms),
        keeps_late=one.keeps_late or other.keeps_late,
        mixed=True,
    )


def _select(bench: Bench, select: exp.Select, *, nested: bool) -> Flow:
    origin = select.args.get("from_")
    if origin is None:
        return Flow()
    found = ranked(select)
    if found is not None:
        return _ranked(bench, select, found)
    return _worked(bench, select, _relations(bench, select), nested=nested)


def _ranked(bench: Bench, select: exp.Select, found: Ranked) -> Flow:
    inner = found.inner
    if inner.args.get("group") is not None:
        raise Refusal("ROW_NUMBER over GROUP BY", found.window, "group in a model of its own, and read that")
    relations = _in_place(bench, _relations(bench, inner))
    name_owners(inner, relations)
    flow = _joined(bench, inner, relations)
    if flow.kind == "changes":
        view = signed_view(bench, relations[0])
        relations = [read_signed(inner, relations[0], view)]
    relation = rank(bench, select, found, relations, signed=flow.kind != "rows")
    name_owners(select, [relation])
    return _behind(bench, select, [relation], relation.flow)


def _relations(bench: Bench, select: exp.Select) -> list[Relation]:
    """What a SELECT reads, by alias, in the order of the text; subqueries are carved on the way."""
    nodes = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    found: list[Relation] = []
    for node in nodes:
        match node:
            case exp.Subquery():
                flow = _query(bench, node.this)
                found.append(Relation(node.alias or f"_t{len(found)}", node, flow))
            case exp.Table() if not node.db and node.name.casefold() in bench.local:
                found.append(replace(bench.local[node.name.casefold()], alias=node.alias_or_name, node=node))
            case exp.Table():
                flow = bench.tables.get(node.name, Flow())
                if flow.static:
                    node.set("version", None)  # it has no other versions than the one that is there
                found.append(Relation(node.alias_or_name, node, flow))
            case _:
                found.append(Relation(node.alias_or_name, node, Flow()))
    if found[0].flow.static and all(r.flow.static for r in found):
        raise Refusal("a table that is read by itself", found[0].node, "join a stream with it")
    return found


def _worked(bench: Bench, select: exp.Select, relations: list[Relation], *, nested: bool) -> Flow:
    windows = over_calls(select)
    grouped = select.args.get("group") is not None or bool(select.args.get("distinct"))
    watched = all(r.flow.watermarked for r in relations)
    native = bench.has_window(select) and watched and not is_closed_here(bench, select, relations)
    special = any(r.flow.kind != "rows" for r in relations)
    joins = [j for j in select.args.get("joins") or () if not isinstance(j.this, exp.Lateral | exp.Unnest)]
    if not (windows or (grouped and not native) or special or joins):
        return _passed(select, relations)
    before = select.copy()
    name_owners(select, relations)
    operator_joins = _operator_joins(bench, select, relations)
    if not (windows or (grouped and not native) or special or operator_joins):
        flow = _passed(select, relations)
        for name in ("expressions", "where", "group", "having", "joins"):
            select.set(name, before.args.get(name))
        return flow
    relations = _in_place(bench, relations)
    if nested and len(relations) == 1 and _is_changing_input(bench, relations[0]):
        relations = [read_signed(select, relations[0], signed_view(bench, relations[0]))]
    return _behind(bench, select, relations, _joined(bench, select, relations))


def _is_changing_input(bench: Bench, relation: Relation) -> bool:
    """Whether several changes of one key can come in a batch: only where they are read is their order known."""
    node = relation.node
    return relation.flow.kind == "changes" and isinstance(node, exp.Table) and node.name in bench.inputs


def _behind(bench: Bench, select: exp.Select, relations: list[Relation], flow: Flow) -> Flow:
    """What stands on rows that are joined by now: OVER, GROUP BY, DISTINCT, or nothing but outputs."""
    windows = over_calls(select)
    grouped = select.args.get("group") is not None or bool(select.args.get("distinct"))
    if bench.has_window(select):
        if flow.kind != "rows":
            raise Refusal("a window over changes", select, "take windows over rows that only come")
        if not flow.watermarked:
            raise Refusal("a window behind another operator", select, "take it in a model of its own, which reads this")
        window = closing(bench, select, relations)
        return _passed(select, relations) if window is None else group(bench, select, relations, window=window)
    if windows:
        if flow.kind != "rows":
            raise Refusal("OVER of changes", windows[0], "use it over rows that only come")
        return over(bench, select, relations, windows)
    if not grouped:
        if any(is_aggregate(node) for node in own_nodes(select)):
            return Flow()
        return _forwarded(select, relations, flow)
    if flow.kind == "changes":
        (relation,) = relations
        view = signed_view(bench, relation)
        return group(bench, select, [read_signed(select, relation, view)], signed=True)
    return group(bench, select, relations, signed=flow.kind == "signed")


def _forwarded(select: exp.Select, relations: list[Relation], flow: Flow) -> Flow:
    """A SELECT without memory of its own: the marks of changes go along with the outputs."""
    if flow.kind == "changes":
        shown = {e.unalias().name.casefold(): e.alias_or_name for e in select.expressions if _is_plain(e)}
        stars = any(isinstance(e, exp.Column) and isinstance(e.this, exp.Star) for e in select.expressions)
        key = tuple(shown.get(name.casefold(), name) for name in flow.key)
        absent = [name for name in flow.key if name.casefold() not in shown]
        hidden = [name for name in absent if not stars or is_hidden(name)]
        pass_changes(select)
        select.set("expressions", [*select.expressions, *(exp.column(name, quoted=True) for name in hidden)])
        return replace(_passed(select, relations), kind="changes", key=key, watermarked=False)
    if flow.kind == "signed":
        pass_signs(select)
        return Flow("signed", watermarked=False)
    return replace(_passed(select, relations), watermarked=flow.watermarked)


def _is_plain(projection: exp.Expr) -> bool:
    inner = projection.unalias()
    return isinstance(inner, exp.Column) and not isinstance(inner.this, exp.Star)


def _operator_joins(bench: Bench, select: exp.Select, relations: list[Relation]) -> list[int]:
    """The places of the joins that an operator must do."""
    where = select.args.get("where")
    found = []
    for place, join in enumerate(select.args.get("joins") or ()):
        if isinstance(join.this, exp.Lateral | exp.Unnest):
            continue
        left, right = relations[: place + 1], relations[place + 1]
        if is_operator_join(bench, join, left, right, where.this if where is not None else None):
            found.append(place)
    return found


def _joined(bench: Bench, select: exp.Select, relations: list[Relation]) -> Flow:
    """Carve out the joins that need it, from left to right; says how rows flow behind them."""
    if len(relations) == 1:
        return relations[0].flow
    flow = Flow()
    done = 0
    for place in _operator_joins(bench, select, relations):
        joins = select.args.get("joins") or []
        join = joins[place - done]
        left, right = relations[: place + 1], relations[place + 1]
        if flow.kind == "signed":
            left = [replace(r, flow=Flow("signed", columns=r.flow.columns)) for r in left]
        carved = join_versions if join.this.args.get("version") is not None else join_changes
        flow = carved(bench, select, left, right, join, place - done)
        done = place + 1
    return flow


def _in_place(bench: Bench, relations: list[Relation]) -> list[Relation]:
    """The relations with CTEs put in where they are read: a stage of its own cannot see those of the query.

    By now every subquery needs the alias that its columns are called by.
    """
    found = []
    for relation in relations:
        node = relation.node
        if isinstance(node, exp.Subquery) and not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(relation.alias)))
        if isinstance(node, exp.Table) and not node.db and (cte := bench.local.get(node.name.casefold())):
            alias = exp.TableAlias(this=exp.to_identifier(relation.alias, quoted=True))
            subquery = exp.Subquery(this=cte.node.copy(), alias=alias)
            _put_in_place(subquery, bench.local)
            node.replace(subquery)
            found.append(replace(relation, node=subquery))
        else:
            if isinstance(node, exp.Subquery):
                _put_in_place(node, bench.local)
            found.append(relation)
    return found


def _passed(select: exp.Select, relations: list[Relation]) -> Flow:
    """The flow of a SELECT that Spark does itself: event time goes along in columns that come out unchanged."""
    by_alias = {r.alias.casefold(): r for r in relations}
    times: set[str] = set()
    clocks: set[str] = set()
    columns: set[str] | None = set()
    for e in select.expressions:
        inner = e.unalias()
        if e.is_star:
            whose = by_alias.get(e.table.casefold()) if isinstance(e, exp.Column) and e.table else None
            for r in [whose] if whose is not None else relations:
                times |= r.flow.times
                clocks |= r.flow.clocks
                columns = None if columns is None or r.flow.columns is None else columns | r.flow.columns
            continue
        name = e.alias_or_name.casefold()
        columns = None if columns is None else columns | {name}
        if isinstance(inner, exp.Column):
            owners = [by_alias[inner.table.casefold()]] if inner.table.casefold() in by_alias else relations
            if any(inner.name.casefold() in r.flow.times for r in owners):
                times.add(name)
            if any(inner.name.casefold() in r.flow.clocks for r in owners):
                clocks.add(name)
    return Flow(
        columns=None if columns is None else frozenset(columns),
        times=frozenset(times),
        clocks=frozenset(clocks),
        lateness_ms=max((r.flow.lateness_ms for r in relations), default=0),
        keeps_late=any(r.flow.keeps_late for r in relations),
        mixed=any(r.flow.mixed for r in relations),
    )
