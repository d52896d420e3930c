"""`ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)` with a limit: the first rows of each partition, as changes."""

from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.keyed.operators import Ranking, Sort
from penstock.row_columns import NOW, ORDER, SIGN
from penstock.sql.analyze.statefulness import over_offset
from penstock.sql.rewrite.templates import call
from penstock.sql.stateful.changelog import sign_changes
from penstock.sql.stateful.joins.conditions import is_processing_time
from penstock.sql.stateful.joins.time_bounds import is_event_time
from penstock.sql.stateful.qualify import internal_column
from penstock.sql.stateful.select import combine_conditions, conjuncts, own_nodes, pack_rows, read_view
from penstock.sql.stateful.stages import RANK, Flow, QueryRelation, StageBuilder, UnsupportedStream
from penstock.sql.stateful.stateless import stateless_flow


@dataclass(frozen=True, slots=True)
class TopNQuery:
    """A subquery that numbers its rows, and the limit on the number in the outer query."""

    inner: exp.Select
    window: exp.Window
    name: str
    limit: int

    def split(self, condition: exp.Expr) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """Split a condition into the limits on the number and the other conditions."""
        parts = conjuncts(condition)
        limits = [c for c in parts if _parse_limit(c, self.name) is not None]
        return limits, [c for c in parts if not any(c is limit for limit in limits)]


def find_top_n(select: exp.Select) -> TopNQuery | None:
    """Find the subquery with numbered rows of which a SELECT reads the first ones; None if there is none."""
    origin = select.args.get("from_")
    where = select.args.get("where")
    if origin is None or not isinstance(origin.this, exp.Subquery) or not isinstance(origin.this.this, exp.Select):
        return None
    inner = origin.this.this
    numbered = {
        e.alias.casefold(): e.this
        for e in inner.expressions
        if isinstance(e, exp.Alias) and isinstance(e.this, exp.Window) and isinstance(e.this.this, exp.RowNumber)
    }
    if where is None or len(numbered) != 1:
        return None
    ((name, window),) = numbered.items()
    limits = [limit for c in conjuncts(where.this) if (limit := _parse_limit(c, name)) is not None]
    return TopNQuery(inner, window, name, min(limits)) if limits else None


def _parse_limit(condition: exp.Expr, name: str) -> int | None:
    """Return the limit in `rn = 1`, `rn <= 3`, `rn < 4` or `3 >= rn`; None for other conditions."""
    if not isinstance(condition, exp.EQ | exp.LTE | exp.LT | exp.GT | exp.GTE):
        return None
    one, other = condition.left, condition.right
    flipped = isinstance(one, exp.Literal)
    column, number = (other, one) if flipped else (one, other)
    if not isinstance(column, exp.Column) or column.name.casefold() != name or not isinstance(number, exp.Literal):
        return None
    if number.is_string or not number.this.isdigit():
        return None
    bound = int(number.this)
    less, less_or_equal = (exp.GT, exp.GTE) if flipped else (exp.LT, exp.LTE)
    match condition:
        case exp.EQ() if bound == 1:
            return 1
        case _ if isinstance(condition, less_or_equal):
            return bound
        case _ if isinstance(condition, less):
            return bound - 1
        case _:
            return None


def extract_top_n(
    plan: StageBuilder, select: exp.Select, found: TopNQuery, relations: list[QueryRelation], *, signed: bool
) -> QueryRelation:
    """Extract the numbering: the SELECT then reads the first rows, under the alias of the subquery."""
    alias = select.args["from_"].this.alias or "_t0"
    partition, ordered = _partition_order(found)
    keys = [exp.alias_(e.copy(), f"_p{place}") for place, e in enumerate(partition)]
    kept = [e for e in found.inner.expressions if e.unalias() is not found.window]
    payload = exp.alias_(call("struct", *map(_name_output, kept)), alias, quoted=True)
    inner, order = _sorted_rows(plan, found, relations, ordered, [payload, *keys], signed=signed)
    operator = Ranking(
        partition=tuple(k.alias for k in keys),
        order=order,
        limit=found.limit,
        rank=RANK if _needs_rank(select, found) else None,
        signed=signed,
        ttl_ms=plan.ttl_ms,
        last_first=found.limit == 1 and _is_latest(ordered, relations),
    )
    view = plan.operator(operator, plan.sql(inner))
    plan.note_unbounded_state("ROW_NUMBER", over_offset(found.window))
    if _is_row_set(operator):
        view = plan.sql(sign_changes(exp.Table(this=exp.to_identifier(view, quoted=True))))
    _read_top_n(select, found, view)
    known = stateless_flow(exp.Select(expressions=[e.copy() for e in kept]), relations)
    named = ((key.alias, _partition_output(e, kept, relations)) for e, key in zip(partition, keys, strict=True))
    shown = {key: name for key, name in named if name}
    flow = _top_n_flow(operator, Flow(columns=known.columns, clocks=known.clocks, watermarked=False))
    return QueryRelation(alias, select.args["from_"].this, flow, packed=True, shown=shown if flow.key else {})


def _sorted_rows(
    plan: StageBuilder,
    found: TopNQuery,
    relations: list[QueryRelation],
    ordered: exp.Order,
    extra: list[exp.Expr],
    *,
    signed: bool,
) -> tuple[exp.Select, tuple[Sort, ...]]:
    """Return the SELECT of rows with their sort columns, and the order. Ascending arrival needs no column."""
    first = ordered.expressions[0]
    by_arrival = is_processing_time(first.this, relations)
    sorts = [] if by_arrival else [_sort_column(o, place) for place, o in enumerate(ordered.expressions)]
    sign = [exp.column(SIGN)] if signed else []
    inner = pack_rows(plan, found.inner, relations, [*extra, *(e for e, _ in sorts), *sign], rows=False, order=True)
    if by_arrival and first.args.get("desc"):
        outputs = {e.alias_or_name: e.unalias() for e in inner.expressions}
        arrival = [outputs[name].copy() for name in (NOW, *ORDER)]  # the batch, then the position in it
        sorts = [(exp.alias_(e, f"_o{i}"), Sort(f"_o{i}", True)) for i, e in enumerate(arrival)]
        inner.set("expressions", [*inner.expressions, *(e for e, _ in sorts)])
    return inner, tuple(sort for _, sort in sorts)


def _is_latest(ordered: exp.Order, relations: list[QueryRelation]) -> bool:
    """Whether rows are sorted by event time alone, latest first: of equal times, the last arrival then wins."""
    first, *others = ordered.expressions
    column = first.this
    return (
        not others
        and bool(first.args.get("desc"))
        and isinstance(column, exp.Column)
        and any(is_event_time(column, r) for r in relations)
    )


def _is_row_set(operator: Ranking) -> bool:
    """Whether several rows of a partition are kept and their numbers are not used: rows are only added or removed."""
    return operator.limit > 1 and operator.rank is None


def _top_n_flow(operator: Ranking, flow: Flow) -> Flow:
    """Return the flow of the first rows. With arrival order and a limit of 1, the first row never changes."""
    if _is_row_set(operator):
        return replace(flow, kind="signed")
    if operator.limit == 1 and not operator.order and not operator.signed:
        return flow
    key = (*operator.partition, *((RANK,) if operator.limit > 1 else ()))
    return replace(flow, kind="changes", key=key, hidden=frozenset(key))


def _partition_order(found: TopNQuery) -> tuple[list[exp.Expr], exp.Order]:
    """Return the partition and the order of the numbering. Raise UnsupportedStream if they are not supported."""
    window = found.window
    others = [n for n in own_nodes(found.inner) if isinstance(n, exp.Window) and n is not window]
    if others:
        hint = "number the rows in a subquery of its own"
        raise UnsupportedStream("OVER beside ROW_NUMBER", over_offset(others[0]), hint)
    if found.inner.args.get("group") is not None or found.inner.args.get("distinct"):
        raise UnsupportedStream("ROW_NUMBER over GROUP BY", over_offset(window), "group in a subquery")
    if found.limit < 1:
        raise UnsupportedStream("a rank below 1", over_offset(window), "ranks begin with 1")
    partition, ordered = window.args.get("partition_by") or [], window.args.get("order")
    if ordered is None:
        raise UnsupportedStream("ROW_NUMBER without ORDER BY", over_offset(window), "add ORDER BY to its OVER")
    if not partition:
        raise UnsupportedStream("ROW_NUMBER without PARTITION BY", over_offset(window), "add PARTITION BY to its OVER")
    return partition, ordered


def _read_top_n(select: exp.Select, found: TopNQuery, view: str) -> None:
    """Read the operator's view. The row number is a separate column there, and the limit is already applied."""
    _, rest = found.split(select.args["where"].this)
    select.set("where", combine_conditions(rest))
    for node in list(own_nodes(select)):
        if isinstance(node, exp.Column) and node.name.casefold() == found.name:
            renamed: exp.Expr = internal_column(RANK)
            if node.parent is select and node.arg_key == "expressions":
                renamed = exp.alias_(renamed, node.name, quoted=True)
            node.replace(renamed)
    rank_names = [e.alias for e in found.inner.expressions if e.unalias() is found.window]
    outputs: list[exp.Expr] = []
    for e in select.expressions:
        if _is_star_without(e, found.name):
            outputs.append(exp.Star())
        else:
            number = [exp.alias_(internal_column(RANK), name, quoted=True) for name in rank_names if e.is_star]
            outputs += [e, *number]
    select.set("expressions", outputs)
    read_view(select, view, joins=True)


def _is_star_without(e: exp.Expr, name: str) -> bool:
    """Whether a star excludes exactly this column."""
    return isinstance(e, exp.Star) and [i.name.casefold() for i in e.args.get("except_") or ()] == [name]


def _needs_rank(select: exp.Select, found: TopNQuery) -> bool:
    limits, _ = found.split(select.args["where"].this)
    spent = {id(node) for limit in limits for node in limit.walk()}
    columns = [n for n in own_nodes(select) if isinstance(n, exp.Column) and n.name.casefold() == found.name]
    starred = any(e.is_star and not _is_star_without(e, found.name) for e in select.expressions)
    return starred or any(id(c) not in spent for c in columns)


def _name_output(projection: exp.Expr) -> exp.Expr:
    if projection.is_star or isinstance(projection, exp.Alias):
        return projection.copy()
    return exp.alias_(projection.copy(), projection.alias_or_name, quoted=True)


def _partition_output(partition: exp.Expr, kept: list[exp.Expr], relations: list[QueryRelation]) -> str | None:
    """Return the output that equals a partition expression; None if there is none."""
    for e in kept:
        if e.unalias() == partition:
            return str(e.alias_or_name)
        if e.is_star and isinstance(partition, exp.Column) and len(relations) == 1:
            columns = relations[0].flow.columns or ()
            return next((c for c in columns if c.casefold() == partition.name.casefold()), str(partition.name))
    return None


def _sort_column(ordered: exp.Ordered, place: int) -> tuple[exp.Expr, Sort]:
    """Return a column to sort by, and its sort order."""
    name, nulls_first = f"_o{place}", ordered.args.get("nulls_first")
    nulls_last = None if nulls_first is None else not nulls_first
    return exp.alias_(ordered.this.copy(), name), Sort(name, bool(ordered.args.get("desc")), nulls_last)
