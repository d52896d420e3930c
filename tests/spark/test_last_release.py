"""Projects that the last release has begun: everything goes on, from its state and its places in topics."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.plan.explain import explain
from penstock.workflow.stages import check, compile_project, plan_project
from tests.spark.release_fixture import BEGUN, COUNTRIES, drop, order, payment, unpack
from tests.spark.running import Running

RELEASES = sorted((Path(__file__).parent / "releases").glob("*.tar.gz"))
ORDERS, PAYMENTS = 45, 40
"""How many rows there are in the end."""


def _plan(running: Running) -> dict[str, tuple[str, str]]:
    checked = check(running.root)
    lines = [explain(step) for step in plan_project(checked, compile_project(checked)).steps]
    return {line.name: (line.action, line.reason) for line in lines if line.subject == "query"}


def _grouped(orders: Iterable[dict[str, Any]], *names: str) -> dict[tuple[Any, ...], tuple[int, int]]:
    """How many orders there are, and what their amounts add up to, by some of their values."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for each in orders:
        key = tuple(each[name] for name in names)
        count, total = found.get(key, (0, 0))
        found[key] = count + 1, total + each["amount"]
    return found


def _latest(orders: Iterable[dict[str, Any]]) -> dict[int, tuple[Any, ...]]:
    return {each["id"]: (each["id"], each["country"], each["amount"]) for each in orders}


def _expected() -> dict[str, Counter[tuple[Any, ...]]]:
    before, later = list(map(order, range(BEGUN["orders"]))), list(map(order, range(BEGUN["orders"], ORDERS)))
    every = before + later
    hours = [{**each, "hour": each["at"].replace(minute=0, tzinfo=None)} for each in every]
    last = every[-1]["at"].replace(minute=0, tzinfo=None)
    windows = {key: sums for key, sums in _grouped(hours, "country", "hour").items() if key[1] < last}
    counts = [
        *((*key, *sums, "i") for key, sums in _grouped(before, "country").items()),
        *((*key, *sums, "u") for key, sums in _grouped(every, "country").items()),
    ]
    newest = [*((*row, "i") for row in _latest(before).values()), *((*row, "u") for row in _latest(later).values())]
    rows: dict[str, Iterable[tuple[Any, ...]]] = {
        "large": [(each["id"], each["amount"]) for each in every if each["amount"] >= 5],
        "named": [(each["id"], COUNTRIES.get(each["country"])) for each in every],
        "hourly": [(*key, *sums) for key, sums in windows.items()],
        "per_country": counts,
        "latest": newest,
        "paid": [(order(n)["id"], order(n)["amount"], payment(n)["at"].replace(tzinfo=None)) for n in range(PAYMENTS)],
    }
    return {name: Counter(found) for name, found in rows.items()}


COLUMNS = {
    "large": ("id", "amount"),
    "named": ("id", "name"),
    "hourly": ("country", "hour_start", "n", "total"),
    "per_country": ("country", "n", "total", "_gs_op"),
    "latest": ("id", "country", "amount", "_gs_op"),
    "paid": ("id", "amount", "paid_at"),
}
CHANGED = {
    "0.1.0.tar.gz": {
        "named": "a join with a lookup table keeps no state",
        "latest": "of rows with equal times, the last to arrive is now the latest",
    }
}
"""Queries that are run otherwise since a release, and why. They go on with their checkpoints all the same."""


@pytest.mark.parametrize("archive", RELEASES, ids=lambda file: file.name.removesuffix(".tar.gz"))
def test_a_project_that_a_release_has_begun_goes_on(running: Running, archive: Path) -> None:
    unpack(archive, running.root)
    steps = _plan(running)
    assert {name: action for name, (action, _) in steps.items()} == {
        name: "restart" if name in CHANGED.get(archive.name, {}) else "resume" for name in COLUMNS
    }
    for name, reason in CHANGED.get(archive.name, {}).items():
        assert reason in steps[name][1]

    drop(running.root, "orders.v1", "2.json", map(order, range(BEGUN["orders"], ORDERS)))
    drop(running.root, "payments.v1", "2.json", map(payment, range(BEGUN["payments"], PAYMENTS)))
    progress = running.run()
    assert {name: row.rows_in for name, row in progress.items()} == {
        **dict.fromkeys(COLUMNS, ORDERS - BEGUN["orders"]),
        "paid": ORDERS - BEGUN["orders"] + PAYMENTS - BEGUN["payments"],
    }
    found = {name: [tuple(r[c] for c in columns) for r in running.topic(name)] for name, columns in COLUMNS.items()}
    assert {name: Counter(rows) for name, rows in found.items()} == _expected()
    assert {action for action, _ in _plan(running).values()} == {"resume"}
