"""SQL that is split into stages, and the tables that it reads: how their rows come, and their columns in Spark."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Query, bind_tables
from penstock.sql.rewrite.translate import name_projections
from penstock.sql.stateful.plan import StagePlan, plan_stages
from penstock.sql.stateful.stages import Flow

DDL: Final = {
    "source.orders": (
        "id BIGINT, customer_id BIGINT, amount DOUBLE, status STRING, at TIMESTAMP, came TIMESTAMP, "
        "items ARRAY<STRING>, payload STRUCT<id: BIGINT, user: STRUCT<id: BIGINT, Name: STRING>>"
    ),
    "source.customers": "id BIGINT, name STRING, city STRING, updated_at TIMESTAMP",
    "source.rates": "currency STRING, rate DECIMAL(10, 4), at TIMESTAMP",
    "source.blind": "a BIGINT, b STRING",
    "source.odd": "`Order` BIGINT, `my col` STRING, _k0 STRING, _rank INT, `row` STRING, _a0 BIGINT, Odd STRING",
    "model.totals": "customer_id BIGINT, total DOUBLE, _gs_op STRING",
}
FLOWS: Final = {
    "source.orders": Flow(
        columns=("id", "customer_id", "amount", "status", "at", "came", "items", "payload"),
        times=frozenset({"at"}),
        clocks=frozenset({"came"}),
    ),
    "source.customers": Flow(columns=("id", "name", "city", "updated_at"), times=frozenset({"updated_at"})),
    "source.rates": Flow(columns=("currency", "rate", "at"), times=frozenset({"at"})),
    "source.blind": Flow(),
    "source.odd": Flow(columns=("Order", "my col", "_k0", "_rank", "row", "_a0", "Odd")),
    "model.totals": Flow("changes", ("customer_id",), ("customer_id", "total")),
}


@dataclass(frozen=True, slots=True)
class Fixture:
    """SQL and what becomes of it. `flow` is told as `kind by key`."""

    sql: str
    operators: tuple[str, ...] = ()
    flow: str = "rows"


@dataclass(frozen=True, slots=True)
class Refused:
    sql: str
    name: str
    at: str
    way_out: str


@cache
def _written() -> dict[str, list[dict[str, Any]]]:
    found = yaml.safe_load((Path(__file__).parent / "staged_sql.yml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def fixtures() -> list[Fixture]:
    groups = [listed for group, listed in _written().items() if group != "refused"]
    return [Fixture(f["sql"], tuple(f.get("operators", ())), f.get("flow", "rows")) for group in groups for f in group]


def refused() -> list[Refused]:
    return [Refused(**entry) for entry in _written()["refused"]]


def bound_query(sql: str) -> Query:
    return bind_tables(Query(sql, PROJECT), {table.partition(".")[2]: table for table in FLOWS})


def stage_plan(sql: str, ttl_ms: int | None = None, *, nested: bool = False) -> StagePlan:
    return plan_stages(name_projections(bound_query(sql).take_tree()), "m", FLOWS, FLOWS, ttl_ms, nested=nested)
