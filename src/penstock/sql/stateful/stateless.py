"""The output of a stateless SELECT: its columns, event time and processing time."""

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.stateful.joins.time_bounds import timely_relations
from penstock.sql.stateful.stages import Flow, QueryRelation


def stateless_flow(select: exp.Select, relations: Sequence[QueryRelation]) -> Flow:
    """Return the flow of a SELECT that Spark runs itself. Unchanged columns keep their event time."""
    by_alias = {r.alias.casefold(): r for r in relations}
    in_time = timely_relations(select, relations)
    times: set[str] = set()
    stale: set[str] = set()
    clocks: set[str] = set()
    columns: list[str] | None = []
    for e in select.expressions:
        if e.is_star:
            whose = by_alias.get(e.table.casefold()) if isinstance(e, exp.Column) and e.table else None
            for r in [whose] if whose is not None else relations:
                times |= r.flow.times if _is_among(r, in_time) else set()
                stale |= r.flow.stale if _is_among(r, in_time) else r.flow.stale | r.flow.times
                clocks |= r.flow.clocks
                columns = None if columns is None or r.flow.columns is None else [*columns, *r.flow.columns]
            continue
        name = e.alias_or_name
        columns = None if columns is None else [*columns, name]
        inner = e.unalias()
        if isinstance(inner, exp.Column):
            owners = [by_alias[inner.table.casefold()]] if inner.table.casefold() in by_alias else relations
            timed = [r for r in owners if inner.name.casefold() in r.flow.times]
            if any(_is_among(r, in_time) for r in timed):
                times.add(name.casefold())
            if any(inner.name.casefold() in r.flow.stale for r in owners) or (timed and name.casefold() not in times):
                stale.add(name.casefold())
            if any(inner.name.casefold() in r.flow.clocks for r in owners):
                clocks.add(name.casefold())
    return Flow(
        columns=None if columns is None else tuple(columns),
        times=frozenset(times),
        clocks=frozenset(clocks),
        watermarked=all(r.flow.watermarked for r in relations),
        lateness_ms=max((r.flow.lateness_ms for r in relations), default=0),
        keeps_late=any(r.flow.keeps_late for r in relations),
        mixed=any(r.flow.mixed for r in relations),
        stale=frozenset(stale),
        joined=any(r.flow.joined for r in relations) or len([r for r in relations if not r.flow.static]) > 1,
    )


def _is_among(relation: QueryRelation, relations: Sequence[QueryRelation]) -> bool:
    return any(relation is other for other in relations)
