"""Joins that Spark cannot stream: of changes, outer without a bound in time, with the version at a time, with a TTL."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from penstock.keyed.operators import OP, SIGN, ChangeJoin, VersionJoin
from penstock.sql.carving.changes import read_signed, signed_view
from penstock.sql.carving.conditions import OUTER, asked_of, filters, is_clock, is_time
from penstock.sql.carving.late import late_rows
from penstock.sql.carving.select import all_of, conjuncts, own_columns, packed, star_of
from penstock.sql.carving.stages import Bench, Flow, Refusal, Relation
from penstock.sql.query import offset_of, start_of

VERSIONS: Final = "FOR SYSTEM_TIME AS OF"


def join_changes(
    bench: Bench, select: exp.Select, left: list[Relation], right: Relation, join: exp.Join, place: int
) -> Flow:
    """A join of rows that come and go. The SELECT then reads its result, from which its other joins go on."""
    if join.kind in {"SEMI", "ANTI"}:
        ways = {"SEMI": "use an inner join and SELECT DISTINCT", "ANTI": "use LEFT JOIN and WHERE … IS NULL"}
        raise Refusal(f"{join.kind} JOIN", join, ways[join.kind])
    where = select.args.get("where")
    asked = asked_of(join, left, right, where.this if where is not None else None)
    outer = join.side in OUTER
    if asked.rest and outer:
        raise Refusal(f"{join.side} JOIN with more than equalities", join, "bound it in time, or filter its inputs")
    for_left, for_right = filters(select, join, place, left, right)
    select.set("where", all_of([*_conditions(select), *asked.rest]))
    one_view = _side(bench, select, left, place, "_l", asked.left, where=[*asked.on_left, *for_left])
    alone = _alone(select, right)
    wanted = _wanted(select, [right], place)
    other_view = _side(bench, alone, [right], 0, "_r", asked.right, where=[*asked.on_right, *for_right], wanted=wanted)
    operator = ChangeJoin(
        side=join.side.lower() if outer else "inner",  # type: ignore[arg-type]
        left_key=tuple(f"_l{i}" for i in range(len(asked.left))),
        right_key=tuple(f"_r{i}" for i in range(len(asked.right))),
        ttl_ms=bench.ttl_ms,
    )
    view = bench.operator(operator, one_view, other_view)
    bench.keeps(f"{join.side} JOIN".strip() if outer else "JOIN", offset_of(join))
    only_come = not outer and all(r.flow.kind == "rows" for r in (*left, right))
    _continue(select, view, place, [*left, right])
    return Flow("rows" if only_come else "signed", watermarked=False)


def join_versions(
    bench: Bench, select: exp.Select, left: list[Relation], right: Relation, join: exp.Join, place: int
) -> Flow:
    """A join with the version that was valid at the time of a row."""
    version = join.this.args["version"].expression
    if any(r.flow.kind != "rows" for r in left):
        raise Refusal("FOR SYSTEM_TIME AS OF beside changes", join, "join in a model that reads rows that only come")
    if join.side in {"RIGHT", "FULL"}:
        raise Refusal(f"{join.side} JOIN FOR SYSTEM_TIME AS OF", join, "use JOIN or LEFT JOIN")
    asked = asked_of(join, left, right, None)
    rest = [*asked.rest, *asked.on_left, *asked.on_right]
    if rest and join.side:
        raise Refusal("LEFT JOIN FOR SYSTEM_TIME AS OF with more than equalities", join, "filter in a model behind it")
    by_clock = is_clock(version, left)
    right_times = sorted(right.flow.times)
    timed = [r for r in left if isinstance(version, exp.Column) and is_time(version, r)]
    if not by_clock and not timed:
        way_out = "write the event time of the left side, or PROCTIME()"
        raise Refusal("FOR SYSTEM_TIME AS OF something else than a time", join, way_out)
    if not by_clock and not all(r.flow.watermarked for r in timed):
        way_out = "join in a model of its own, which reads what comes before"
        raise Refusal("FOR SYSTEM_TIME AS OF behind another operator", join, way_out)
    if not by_clock and not right_times:
        way_out = f"declare `event_time` on the source of `{right.alias}`"
        raise Refusal("FOR SYSTEM_TIME AS OF without an event time of the versions", join, way_out)
    times = (None, None) if by_clock else (version, exp.column(right_times[0], table=right.alias, quoted=True))
    for_left, _ = filters(select, join, place, left, right)
    select.set("where", all_of([*_conditions(select), *rest]))
    late = None if by_clock else late_rows(_alone(select, left[0]), left, version)
    one_view = _side(bench, select, left, place, "_l", asked.left, times[0], where=for_left, plain=True)
    other, wanted = _alone(select, right), _wanted(select, [right], place)
    other.args["from_"].this.set("version", None)
    other_view = _side(bench, other, [right], 0, "_r", asked.right, times[1], wanted=wanted, plain=True)
    operator = VersionJoin(
        left_key=tuple(f"_l{i}" for i in range(len(asked.left))),
        right_key=tuple(f"_r{i}" for i in range(len(asked.right))),
        left_time=None if by_clock else "_lt",
        right_time=None if by_clock else "_rt",
        keep_unmatched=join.side == "LEFT",
        ttl_ms=bench.ttl_ms,
    )
    view = bench.operator(operator, one_view, other_view, late=late)
    bench.keeps(VERSIONS, start_of(version))
    _continue(select, view, place, [*left, right])
    return Flow(watermarked=False)


def _alone(select: exp.Select, relation: Relation) -> exp.Select:
    """The SELECT as if it read one relation only."""
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
    where: Sequence[exp.Expr] = (),
    wanted: list[exp.Expr] | None = None,
    plain: bool = False,
) -> str:
    """A view of one side of a join: rows as structs, keys, and what the operator wants besides."""
    extra: list[exp.Expr] = [exp.alias_(key.copy(), f"{prefix}{i}") for i, key in enumerate(keys)]
    if time is not None:
        extra.append(exp.alias_(time.copy(), f"{prefix}t"))
    side = select.copy()
    side.set("joins", [j.copy() for j in (select.args.get("joins") or [])[:joins]])
    side.set("where", all_of(where))
    side.set("expressions", _wanted(select, relations, joins) if wanted is None else wanted)
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


def _conditions(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return conjuncts(where.this if where is not None else None)


def _wanted(select: exp.Select, relations: list[Relation], place: int) -> list[exp.Expr]:
    """Every column of these relations that the SELECT mentions behind the join, as a list of outputs."""
    behind = select.copy()
    joins = (select.args.get("joins") or [])[place + 1 :]
    behind.set("joins", [join.copy() for join in joins])
    aliases = {r.alias.casefold() for r in relations}
    columns: list[exp.Expr] = [c.copy() for c in own_columns(behind) if c.table.casefold() in aliases]
    shared = [name for join in joins for name in join.args.get("using") or ()]
    return columns + [
        exp.column(name.name.casefold(), table=r.alias, quoted=True)
        for name in shared
        for r in relations
        if r.flow.has(name.name)
    ]


def _continue(select: exp.Select, view: str, place: int, relations: list[Relation]) -> None:
    """Let the SELECT read the joined view, in which rows are structs, in place of everything up to the join."""
    rest = (select.args.get("joins") or [])[place + 1 :]
    select.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(view, quoted=True))))
    select.set("joins", rest)
    aliases = {r.alias.casefold(): r for r in relations}
    for column in own_columns(select):
        if isinstance(column.this, exp.Star) and column.table.casefold() in aliases:
            column.replace(star_of(replace(aliases[column.table.casefold()], packed=True)))
