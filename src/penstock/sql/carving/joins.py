"""Joins that Spark cannot stream: of changes, outer without a bound in time, with the version at a time, with a TTL."""

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.keyed.operators import OP, SIGN, ChangeJoin, VersionJoin
from penstock.sql.carving.changes import read_signed, signed_view
from penstock.sql.carving.late import late_rows, refuse_unseen
from penstock.sql.carving.select import conjuncts, own_columns, packed, tables_in
from penstock.sql.carving.stages import Bench, Flow, Refusal, Relation

_COMPARISONS: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.EQ)


def is_operator_join(
    bench: Bench, join: exp.Join, left: list[Relation], right: Relation, where: exp.Expr | None
) -> bool:
    """Whether an operator of ours must do a join. A table is looked up by Spark, in every batch."""
    if right.flow.static:
        if join.side in {"RIGHT", "FULL"}:
            raise Refusal(f"{join.side} JOIN with a table", join, "use JOIN or LEFT JOIN: nothing comes from a table")
        return False
    if join.this.args.get("version") is not None:
        return True
    if any(r.flow.kind != "rows" for r in (*left, right)):
        return True
    condition = exp.and_(join.args.get("on"), where) if where is not None else join.args.get("on")
    bounded = _is_bounded(condition, left, right)
    outer = join.side in {"LEFT", "RIGHT", "FULL"}
    if not bounded and not outer:
        if bench.ttl_ms is None:
            bench.keeps("JOIN without a bound in time", join)
        return bench.ttl_ms is not None
    if bounded:
        refuse_unseen(join, (*left, right))
    return not bounded


def _is_bounded(condition: exp.Expr | None, left: list[Relation], right: Relation) -> bool:
    """Whether a condition holds the event times of both sides together."""
    for part in conjuncts(condition):
        if isinstance(part, _COMPARISONS):
            columns = list(part.find_all(exp.Column))
            on_left = any(_is_time(c, r) for c in columns for r in left)
            if on_left and any(_is_time(c, right) for c in columns):
                return True
    return False


def _is_time(column: exp.Column, relation: Relation) -> bool:
    flow = relation.flow
    return column.table.casefold() == relation.alias.casefold() and column.name.casefold() in flow.times


@dataclass(frozen=True, slots=True)
class _Condition:
    """What a join asks for: pairs of equal expressions, and the rest."""

    left: tuple[exp.Expr, ...]
    right: tuple[exp.Expr, ...]
    rest: tuple[exp.Expr, ...]


def _condition(join: exp.Join, left: list[Relation], right: Relation, where: exp.Expr | None) -> _Condition:
    on_left = {r.alias.casefold() for r in left}
    right_alias = right.alias.casefold()
    pairs: list[tuple[exp.Expr, exp.Expr]] = []
    rest: list[exp.Expr] = []
    pairs += [
        (exp.column(shared.name, table=left[0].alias), exp.column(shared.name, table=right.alias))
        for shared in join.args.get("using") or ()
    ]
    for part in conjuncts(join.args.get("on")):
        pair = _equal(part, on_left, right_alias)
        if pair is None:
            rest.append(part)
        else:
            pairs.append(pair)
    if not pairs and join.args.get("on") is None:
        pairs = [pair for part in conjuncts(where) if (pair := _equal(part, on_left, right_alias)) is not None]
    if not pairs:
        raise Refusal("a join without an equality", join, "add `left.column = right.column` to its condition")
    return _Condition(tuple(one for one, _ in pairs), tuple(other for _, other in pairs), tuple(rest))


def _equal(part: exp.Expr, left: set[str], right: str) -> tuple[exp.Expr, exp.Expr] | None:
    if not isinstance(part, exp.EQ):
        return None
    one, other = tables_in(part.left), tables_in(part.right)
    if one and one <= left and other == {right}:
        return part.left, part.right
    if other and other <= left and one == {right}:
        return part.right, part.left
    return None


def join_changes(
    bench: Bench, select: exp.Select, left: list[Relation], right: Relation, join: exp.Join, place: int
) -> Flow:
    """A join of rows that come and go. The SELECT then reads its result, from which its other joins go on."""
    if join.kind in {"SEMI", "ANTI"}:
        raise Refusal(f"{join.kind} JOIN", join, "use an inner join")
    where = select.args.get("where")
    asked = _condition(join, left, right, where.this if where is not None else None)
    outer = join.side in {"LEFT", "RIGHT", "FULL"}
    if outer and asked.rest:
        raise Refusal(f"{join.side} JOIN with more than equalities", join, "bound it in time, or filter its inputs")
    one_view = _side(bench, select, left, place, "_l", asked.left)
    other_view = _side(bench, _alone(select, right), [right], 0, "_r", asked.right)
    operator = ChangeJoin(
        side=join.side.lower() if outer else "inner",  # type: ignore[arg-type]
        left_key=tuple(f"_l{i}" for i in range(len(asked.left))),
        right_key=tuple(f"_r{i}" for i in range(len(asked.right))),
        ttl_ms=bench.ttl_ms,
    )
    view = bench.operator(operator, one_view, other_view)
    bench.keeps(f"{join.side} JOIN".strip() if outer else "JOIN", join)
    if asked.rest:
        also = [*conjuncts(where.this if where is not None else None), *asked.rest]
        select.set("where", exp.Where(this=exp.and_(*(c.copy() for c in also))))
    only_come = not outer and all(r.flow.kind == "rows" for r in (*left, right))
    return _continue(select, view, place, Flow("rows" if only_come else "signed", watermarked=False))


def join_versions(
    bench: Bench, select: exp.Select, left: list[Relation], right: Relation, join: exp.Join, place: int
) -> Flow:
    """A join with the version that was valid at the time of a row."""
    version = join.this.args["version"].expression
    if any(r.flow.kind != "rows" for r in left):
        raise Refusal("FOR SYSTEM_TIME AS OF beside changes", join, "join in a model that reads rows that only come")
    if join.side in {"RIGHT", "FULL"}:
        raise Refusal(f"{join.side} JOIN FOR SYSTEM_TIME AS OF", join, "use JOIN or LEFT JOIN")
    asked = _condition(join, left, right, None)
    if asked.rest and join.side:
        raise Refusal("LEFT JOIN FOR SYSTEM_TIME AS OF with more than equalities", join, "filter in a model behind it")
    by_clock = isinstance(version, exp.Anonymous) and version.name.upper() == "PROCTIME"
    by_clock = by_clock or any(_is_clock(version, r) for r in left)
    right_times = sorted(right.flow.times)
    if not by_clock and not any(isinstance(version, exp.Column) and _is_time(version, r) for r in left):
        way_out = "write the event time of the left side, or PROCTIME()"
        raise Refusal("FOR SYSTEM_TIME AS OF something else than a time", join, way_out)
    if not by_clock and not right_times:
        way_out = f"declare `event_time` on the source of `{right.alias}`"
        raise Refusal("FOR SYSTEM_TIME AS OF without an event time of the versions", join, way_out)
    times = (None, None) if by_clock else (version, exp.column(right_times[0], table=right.alias))
    one_view = _side(bench, select, left, place, "_l", asked.left, times[0], plain=True)
    other = _alone(select, right)
    other.args["from_"].this.set("version", None)
    other_view = _side(bench, other, [right], 0, "_r", asked.right, times[1], plain=True)
    operator = VersionJoin(
        left_key=tuple(f"_l{i}" for i in range(len(asked.left))),
        right_key=tuple(f"_r{i}" for i in range(len(asked.right))),
        left_time=None if by_clock else "_lt",
        right_time=None if by_clock else "_rt",
        keep_unmatched=join.side == "LEFT",
        ttl_ms=bench.ttl_ms,
    )
    late = None if by_clock else late_rows(_alone(select, left[0]), left, version)
    view = bench.operator(operator, one_view, other_view, late=late)
    where = select.args.get("where")
    if asked.rest:
        also = [*conjuncts(where.this if where is not None else None), *asked.rest]
        select.set("where", exp.Where(this=exp.and_(*(c.copy() for c in also))))
    return _continue(select, view, place, Flow(watermarked=False))


def _is_clock(column: exp.Expr, relation: Relation) -> bool:
    return (
        isinstance(column, exp.Column)
        and column.table.casefold() == relation.alias.casefold()
        and column.name.casefold() in relation.flow.clocks
    )


def _alone(select: exp.Select, relation: Relation) -> exp.Select:
    """The SELECT as if it read one relation only: for the columns it wants of that."""
    alone = select.copy()
    alone.set("from_", exp.From(this=relation.node.copy()))
    alone.set("where", None)
    alone.set("joins", None)
    alone.set("laterals", None)
    return alone


def _side(
    bench: Bench,
    select: exp.Select,
    relations: list[Relation],
    joins: int,
    prefix: str,
    keys: tuple[exp.Expr, ...],
    time: exp.Expr | None = None,
    *,
    plain: bool = False,
) -> str:
    """A view of one side of a join: rows as structs, keys, and what the operator wants besides."""
    extra: list[exp.Expr] = [exp.alias_(key.copy(), f"{prefix}{i}") for i, key in enumerate(keys)]
    if time is not None:
        extra.append(exp.alias_(time.copy(), f"{prefix}t"))
    side = select.copy()
    side.set("joins", [j.copy() for j in (select.args.get("joins") or [])[:joins]])
    side.set("where", None)
    wanted = _wanted(select, relations)
    side.set("expressions", wanted)
    (only,) = relations if len(relations) == 1 else (None,)
    if plain:
        changes = only is not None and only.flow.kind == "changes"
        if changes:
            assert only is not None
            extra.append(exp.column(OP, table=only.alias))
        return bench.sql(packed(bench, side, relations, extra, order=prefix == "_r"))
    if only is not None and only.flow.kind == "changes":
        relations = [read_signed(side, only, signed_view(bench, only))]
        extra.append(exp.column(SIGN, table=only.alias))
    elif any(r.flow.kind == "signed" for r in relations):
        extra.append(exp.column(SIGN))
    else:
        extra.append(exp.alias_(exp.cast(exp.Literal.number(1), "tinyint"), SIGN))
    return bench.sql(packed(bench, side, relations, extra))


def _wanted(select: exp.Select, relations: list[Relation]) -> list[exp.Expr]:
    """Every column of these relations that the SELECT mentions anywhere, as a list of outputs."""
    aliases = {r.alias.casefold() for r in relations}
    return [c.copy() for c in own_columns(select) if c.table.casefold() in aliases]


def _continue(select: exp.Select, view: str, place: int, flow: Flow) -> Flow:
    """Let the SELECT read the joined view in place of everything up to the join."""
    rest = (select.args.get("joins") or [])[place + 1 :]
    select.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(view, quoted=True))))
    select.set("joins", rest)
    return flow
