"""State: where it is kept, how long, and what `penstock state` reads from its checkpoint."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.cli import state
from penstock.cli.options import OutputFormat
from penstock.errors import PlanRefused
from penstock.testing.rehearsal import Rehearsal

pytestmark = pytest.mark.as_deployed

PROJECT = """
project: {name: shop}
sources:
  - name: orders
    topic: orders.v1
    columns: [{name: id, type: BIGINT}, {name: customer, type: STRING}, {name: at, type: TIMESTAMP(3)}]
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 0}, max_future_ms: 0}
  - name: payments
    topic: payments.v1
    columns: [{name: order_id, type: BIGINT}, {name: paid, type: BIGINT}]
models:
"""
HOUR = "advanced: {spark: {state_ttl_ms: 3600000}}"


@pytest.fixture
def rehearsal(tmp_path: Path, spark: SparkSession) -> Rehearsal:
    return Rehearsal(tmp_path, spark, "2026-01-01T00:00:00Z")


def write(rehearsal: Rehearsal, models: str) -> None:
    (rehearsal.root / "stream_project.yml").write_text(PROJECT + models, encoding="utf-8")


def order(number: int, customer: str = "ann", minute: int = 0) -> dict[str, Any]:
    return {"id": number, "customer": customer, "at": f"2026-01-01T00:{minute:02d}:00Z"}


def later(rehearsal: Rehearsal, minutes: int) -> None:
    rehearsal.now_ms += minutes * 60_000


def shown(rehearsal: Rehearsal, model: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    state.command(model, path=rehearsal.root, form=OutputFormat.JSON)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


# How long


def test_a_count_starts_anew_when_nothing_came_for_its_key_in_time(
    rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        rehearsal,
        f"""
  - name: counts
    sql: SELECT customer, COUNT(*) AS n FROM {{{{ source("orders") }}}} GROUP BY customer
    {HOUR}
""",
    )
    rehearsal.send("orders", [order(1, "ann"), order(2, "bob")]).run()
    later(rehearsal, 40)
    rehearsal.send("orders", [order(3, "ann")]).run()
    later(rehearsal, 40)
    rehearsal.send("orders", [order(4, "ann"), order(5, "bob")]).run()
    changes = sorted((r["customer"], r["n"], r["_gs_op"]) for r in rehearsal.rows("counts"))
    assert changes == [
        *(("ann", 1, "i"), ("ann", 2, "u"), ("ann", 3, "u")),
        *(("bob", 1, "i"), ("bob", 1, "i")),
    ]
    told = shown(rehearsal, "counts", capsys)
    (operator,) = told["operators"]
    assert (told["batch"], told["counted_after_batch"], told["state_backend"]) == (2, 2, "rocksdb")
    assert (operator["what"], operator["rows"], operator["ttl_ms"]) == ("GROUP BY customer", 2, 3_600_000)
    assert operator["bytes"] > 0


def test_another_ttl_holds_for_what_is_there(rehearsal: Rehearsal) -> None:
    models = f"""
  - name: counts
    sql: SELECT customer, COUNT(*) AS n FROM {{{{ source("orders") }}}} GROUP BY customer
    {HOUR}
"""
    write(rehearsal, models)
    rehearsal.send("orders", [order(1)]).run()
    write(rehearsal, models.replace("3600000", "7200000"))
    later(rehearsal, 90)
    rehearsal.send("orders", [order(2)]).run()
    assert sorted((r["n"], r["_gs_op"]) for r in rehearsal.rows("counts")) == [(1, "i"), (2, "u")]


def test_a_duplicate_is_taken_again_when_the_first_is_forgotten(rehearsal: Rehearsal) -> None:
    write(
        rehearsal,
        f"""
  - name: once
    sql: |
      SELECT customer, id FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY at) AS place FROM {{{{ source("orders") }}}}
      ) AS t WHERE place = 1
    {HOUR}
""",
    )
    rehearsal.send("orders", [order(1, minute=1)]).run()
    later(rehearsal, 59)
    rehearsal.send("orders", [order(2, minute=2)]).run()
    assert [r["id"] for r in rehearsal.rows("once")] == [1]
    later(rehearsal, 61)
    rehearsal.send("orders", [order(3, minute=3)]).run()
    assert sorted(r["id"] for r in rehearsal.rows("once")) == [1, 3]


@pytest.mark.parametrize(("side", "alone"), [("", []), ("LEFT", [(1, None, "i"), (2, None, "i")])])
def test_a_join_finds_partners_only_as_long_as_they_are_remembered(
    rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str], side: str, alone: list[Any]
) -> None:
    write(
        rehearsal,
        f"""
  - name: joined
    key: [id]
    sql: |
      SELECT o.id, p.paid FROM {{{{ source("orders") }}}} AS o
      {side} JOIN {{{{ source("payments") }}}} AS p ON o.id = p.order_id
    {HOUR}
""",
    )
    rehearsal.send("orders", [order(1), order(2)]).run()
    later(rehearsal, 40)
    rehearsal.send("payments", [{"order_id": 1, "paid": 10}]).run()
    later(rehearsal, 40)
    rehearsal.send("payments", [{"order_id": 2, "paid": 20}]).run()
    changes = {(r["id"], r["paid"], r.get("_gs_op", "i")) for r in rehearsal.rows("joined")}
    assert changes == {*alone, (1, 10, "u" if alone else "i")}
    (operator,) = shown(rehearsal, "joined", capsys)["operators"]
    assert operator["what"] == f"{side} JOIN payments ON id = order_id".strip()
    assert set(operator["tables"]) == {"left", "right"}
    assert operator["rows"] == sum(operator["tables"].values()) > 0


# Where


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_survive_a_restart_on_either_backend(
    rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    write(
        rehearsal,
        f"""
  - name: hourly
    sql: SELECT customer, COUNT(*) AS n FROM {{{{ source("orders") }}}} GROUP BY customer, TUMBLE(at, INTERVAL '1' HOUR)
    advanced: {{spark: {{state_backend: {backend}, parallelism: 3}}}}
""",
    )
    rehearsal.send("orders", [order(1, "ann", 5), order(2, "bob", 6)]).run()
    told = shown(rehearsal, "hourly", capsys)
    assert (told["state_backend"], told["watermark"]) == (backend, "2026-01-01T00:06:00.000Z")
    (operator,) = told["operators"]
    assert (operator["what"], operator["rows"], operator["partitions"]) == ("window by customer", 2, 3)
    state.command(path=rehearsal.root)
    head, line = capsys.readouterr().out.splitlines()
    assert head.startswith("hourly: ")
    assert head.endswith(f" bytes in {backend}, watermark 2026-01-01T00:06:00.000Z")
    assert line == "  window by customer: 2 rows"
    rehearsal.send("orders", [order(3, "ann", 30)])
    rehearsal.until("2026-01-01T02:00:00Z")
    assert sorted((r["customer"], r["n"]) for r in rehearsal.rows("hourly")) == [("ann", 2), ("bob", 1)]
    assert shown(rehearsal, "hourly", capsys)["operators"][0]["rows"] == 0


def test_an_operator_of_ours_runs_with_hashmap_and_another_parallelism_needs_consent(
    rehearsal: Rehearsal, capsys: pytest.CaptureFixture[str]
) -> None:
    models = """
  - name: counts
    sql: |
      SELECT n, COUNT(*) AS customers FROM
      (SELECT customer, COUNT(*) AS n FROM {{ source("orders") }} GROUP BY customer) AS t GROUP BY n
    advanced: {spark: {state_backend: hashmap, parallelism: 3}}
"""
    write(rehearsal, models)
    rehearsal.send("orders", [order(1, "ann"), order(2, "bob"), order(3, "cid")]).run()
    rehearsal.send("orders", [order(4, "ann")]).run()
    assert sorted((r["n"], r["customers"]) for r in rehearsal.table("counts")) == [(1, 2), (2, 1)]
    told = shown(rehearsal, "counts", capsys)
    assert told["state_backend"] == "rocksdb"
    kept = [(operator["what"], operator["rows"], operator["partitions"]) for operator in told["operators"]]
    assert kept == [("GROUP BY n", 2, 3), ("latest row by customer", 3, 3), ("GROUP BY customer", 3, 3)]
    write(rehearsal, models.replace("parallelism: 3", "parallelism: 2"))
    with pytest.raises(PlanRefused) as refused:
        rehearsal.run()
    assert refused.value.code == "rebuild-refused"
