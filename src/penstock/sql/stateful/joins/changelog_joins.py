"""Joins that Spark cannot stream: of changes, outer without time bounds, with versions, and with a TTL."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from penstock.keyed.operators import ChangeJoin, VersionJoin
from penstock.row_columns import OP, SIGN
from penstock.sql.parse.query import offset_of, start_of
from penstock.sql.stateful.changelog import read_signed_rows, signed_view
from penstock.sql.stateful.joins.conditions import (
    JoinConditions,
    is_processing_time,
    join_conditions,
    take_side_filters,
)
from penstock.sql.stateful.joins.time_bounds import OUTER, is_event_time
from penstock.sql.stateful.late_rows import late_rows_query
from penstock.sql.stateful.select import (
    combine_conditions,
    conjuncts,
    own_columns,
    pack_rows,
    read_view,
    relation_star,
    where_condition,
)
from penstock.sql.stateful.stages import Flow, QueryRelation, StageBuilder, UnsupportedStream

VERSIONS: Final = "FOR SYSTEM_TIME AS OF"


def join_changes(
    plan: StageBuilder, select: exp.Select, left: list[QueryRelation], right: QueryRelation, join: exp.Join, place: int
) -> Flow:
    """Extract a join of signed rows. The SELECT then reads its result, and its later joins follow."""
    if join.kind in {"SEMI", "ANTI"}:
        ways = {"SEMI": "use an inner join and SELECT DISTINCT", "ANTI": "use LEFT JOIN and WHERE … IS NULL"}
        raise UnsupportedStream(f"{join.kind} JOIN", join, ways[join.kind])
    asked = join_conditions(join, left, right, where_condition(select))
    outer = join.side in OUTER
    if asked.rest and outer:
        hint = "bound it in time, or filter its inputs"
        raise UnsupportedStream(f"{join.side} JOIN with more than equalities", join, hint)
    for_left, for_right = take_side_filters(select, join, place, left, right)
    select.set("where", combine_conditions([*conjuncts(where_condition(select)), *asked.rest]))
    side = left_side(select, place, left, [*asked.on_left, *for_left])
    one_view = _signed_side_view(plan, side, left, name_keys("_l", asked.left))
    side = right_side(select, place, right, [*asked.on_right, *for_right])
    other_view = _signed_side_view(plan, side, [right], name_keys("_r", asked.right))
    operator = ChangeJoin(
        side=join.side.lower() if outer else "inner",  # type: ignore[arg-type]
        left_key=tuple(f"_l{i}" for i in range(len(asked.left))),
        right_key=tuple(f"_r{i}" for i in range(len(asked.right))),
        ttl_ms=plan.ttl_ms,
    )
    view = plan.operator(operator, one_view, other_view)
    plan.note_unbounded_state(f"{join.side} JOIN".strip() if outer else "JOIN", offset_of(join))
    only_come = not outer and all(r.flow.kind == "rows" for r in (*left, right))
    read_join_view(select, view, place, [*left, right])
    return Flow("rows" if only_come else "signed", watermarked=False)


def join_versions(
    plan: StageBuilder, select: exp.Select, left: list[QueryRelation], right: QueryRelation, join: exp.Join, place: int
) -> Flow:
    """Extract a join with the version that was valid at the time of a row."""
    version = join.this.args["version"].expression
    asked = _version_conditions(left, right, join)
    left_time, right_time = _join_times(version, left, right, join)
    for_left, _ = take_side_filters(select, join, place, left, right)
    conditions = [*conjuncts(where_condition(select)), *asked.rest, *asked.on_left, *asked.on_right]
    select.set("where", combine_conditions(conditions))
    late = None if left_time is None else late_rows_query(_single_relation_select(select, left[0]), left, left_time)
    side = left_side(select, place, left, for_left)
    one_view = plan.sql(pack_rows(plan, side, left, name_keys("_l", asked.left, left_time)))
    side = right_side(select, place, right, ())
    side.args["from_"].this.set("version", None)
    extra = name_keys("_r", asked.right, right_time)
    if right.flow.kind == "changes":
        extra.append(exp.column(OP, table=right.alias))
    other_view = plan.sql(pack_rows(plan, side, [right], extra, order=True))
    operator = VersionJoin(
        left_key=tuple(f"_l{i}" for i in range(len(asked.left))),
        right_key=tuple(f"_r{i}" for i in range(len(asked.right))),
        left_time=None if left_time is None else "_lt",
        right_time=None if right_time is None else "_rt",
        keep_unmatched=join.side == "LEFT",
        ttl_ms=plan.ttl_ms,
    )
    view = plan.operator(operator, one_view, other_view, late=late)
    plan.note_unbounded_state(VERSIONS, start_of(version), "")
    read_join_view(select, view, place, [*left, right])
    return Flow(watermarked=False)


def _version_conditions(left: list[QueryRelation], right: QueryRelation, join: exp.Join) -> JoinConditions:
    """Return the conditions of a join with versions. Raise UnsupportedStream if it is not supported."""
    if any(r.flow.kind != "rows" for r in left):
        raise UnsupportedStream(f"{VERSIONS} beside changes", join, "join in a model that reads append-only rows")
    if join.side in {"RIGHT", "FULL"}:
        raise UnsupportedStream(f"{join.side} JOIN {VERSIONS}", join, "use JOIN or LEFT JOIN")
    asked = join_conditions(join, left, right, None)
    if join.side and (asked.rest or asked.on_left or asked.on_right):
        raise UnsupportedStream(f"LEFT JOIN {VERSIONS} with more than equalities", join, "filter in a model behind it")
    return asked


def _join_times(
    version: exp.Expr, left: list[QueryRelation], right: QueryRelation, join: exp.Join
) -> tuple[exp.Expr | None, exp.Expr | None]:
    """Return the event times of the rows and of their versions; both None if rows are processed as they arrive."""
    if is_processing_time(version, left):
        return None, None
    timed = [r for r in left if isinstance(version, exp.Column) and is_event_time(version, r)]
    if not timed:
        hint = "write the event time of the left side, or PROCTIME()"
        raise UnsupportedStream(f"{VERSIONS} something else than a time", join, hint)
    if not all(r.flow.watermarked for r in timed):
        hint = "join in a model of its own, which reads what comes before"
        raise UnsupportedStream(f"{VERSIONS} behind another operator", join, hint)
    if not right.flow.times:
        hint = f"declare `event_time` on the source of `{right.alias}`"
        raise UnsupportedStream(f"{VERSIONS} without an event time of the versions", join, hint)
    return version, exp.column(min(right.flow.times), table=right.alias, quoted=True)


def _single_relation_select(select: exp.Select, relation: QueryRelation) -> exp.Select:
    """Return the SELECT as if it read one relation only."""
    alone = select.copy()
    alone.set("from_", exp.From(this=relation.node.copy()))
    for name in ("where", "joins", "laterals"):
        alone.set(name, None)
    return alone


def left_side(select: exp.Select, place: int, relations: list[QueryRelation], where: Sequence[exp.Expr]) -> exp.Select:
    """Return the SELECT up to a join, with the columns that are needed after it."""
    side = select.copy()
    side.set("joins", [join.copy() for join in (select.args.get("joins") or [])[:place]])
    side.set("where", combine_conditions(where))
    side.set("expressions", _later_columns(select, relations, place))
    return side


def right_side(select: exp.Select, place: int, relation: QueryRelation, where: Sequence[exp.Expr]) -> exp.Select:
    """Return the SELECT of the right side of a join only, with the columns that are needed after it."""
    side = _single_relation_select(select, relation)
    side.set("where", combine_conditions(where))
    side.set("expressions", _later_columns(select, [relation], place))
    return side


def name_keys(prefix: str, keys: Sequence[exp.Expr], time: exp.Expr | None = None) -> list[exp.Expr]:
    """Name the keys of a side, and its time, as the operator expects."""
    named: list[exp.Expr] = [exp.alias_(key.copy(), f"{prefix}{i}") for i, key in enumerate(keys)]
    return named if time is None else [*named, exp.alias_(time.copy(), f"{prefix}t")]


def _signed_side_view(
    plan: StageBuilder, side: exp.Select, relations: list[QueryRelation], keys: list[exp.Expr]
) -> str:
    """Return a view of one side of a changelog join: rows as structs, keys, and the sign of each row."""
    only = relations[0] if len(relations) == 1 else None
    sign: exp.Expr
    if only is not None and only.flow.kind == "changes":
        relations = [read_signed_rows(side, only, signed_view(plan, only))]
        sign = exp.column(SIGN, table=only.alias)
    elif any(r.flow.kind == "signed" for r in relations):
        sign = exp.column(SIGN)
    else:
        sign = exp.alias_(exp.cast(exp.Literal.number(1), "tinyint"), SIGN)
    return plan.sql(pack_rows(plan, side, relations, [*keys, sign]))


def _later_columns(select: exp.Select, relations: list[QueryRelation], place: int) -> list[exp.Expr]:
    """Return every column of these relations that the SELECT uses after the join, as outputs."""
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


def read_join_view(select: exp.Select, view: str, place: int, relations: list[QueryRelation]) -> None:
    """Make the SELECT read the joined view, whose rows are structs, in place of everything up to the join."""
    rest = (select.args.get("joins") or [])[place + 1 :]
    read_view(select, view, joins=True)
    select.set("joins", rest)
    aliases = {r.alias.casefold(): r for r in relations}
    for column in own_columns(select):
        if isinstance(column.this, exp.Star) and column.table.casefold() in aliases:
            column.replace(relation_star(replace(aliases[column.table.casefold()], packed=True)))
