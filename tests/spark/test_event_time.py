"""Event times that are none, in virtual time, and inputs that fall silent."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import QueryFailed
from penstock.runtime.run.start import start
from penstock.testing.rehearsal import Rehearsal
from penstock.workflow.stages import check, compile_project, plan_project
from tests.spark.running import Running

MINUTE_MS = 60_000
NINE_MS = 1_767_258_000_000  # 2026-01-01T09:00:00Z
FAR_MS = 253_370_764_800_000  # the year 9999


def source(name: str, kind: str, more: str = "", event_time: str = "") -> str:
    return f"""
  - name: {name}
    topic: {name}.v1
    columns: [{{name: id, type: BIGINT}}, {{name: at, type: {kind}}}]
    event_time: {{column: at, watermark: {{max_out_of_orderness_ms: 0}}{event_time}}}
    {more}"""


def hourly(name: str) -> str:
    return f"""
  - name: {name}_hourly
    sql: |
      SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS hour_start, COUNT(*) AS n
      FROM {{{{ source("{name}") }}}} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)"""


def project(root: Path, sources: str, models: str, defaults: str = "{}") -> None:
    text = f"project: {{name: times}}\ndefaults: {defaults}\nsources:{sources}\nmodels:{models}\n"
    (root / "stream_project.yml").write_text(text, encoding="utf-8")


def dead_letters(running: Running, topic: str) -> list[tuple[str, Any]]:
    found = running.topic(topic) if (running.place.topics / topic).is_dir() else []
    return sorted((row["code"], json.loads(row["value"])["id"]) for row in found)


def hours(stream: Rehearsal, name: str) -> list[tuple[str, int]]:
    return [(f"{row['hour_start']:%H:%M}", row["n"]) for row in stream.rows(f"{name}_hourly")]


def test_times_that_are_none_move_nothing_and_are_kept_or_skipped_as_said(running: Running) -> None:
    """Text, milliseconds and timestamps; one source keeps the rows, one skips them, one takes any time."""
    sources = source("texts", "STRING") + source("skipped", "TIMESTAMP(3)", "on_error: skip")
    sources += source("numbers", "BIGINT", "", ", max_future_ms: 0")
    names = ("texts", "skipped", "numbers")
    project(running.root, sources, "".join(map(hourly, names)))
    stream = Rehearsal(running.root, running.spark, "2026-01-01T09:30:00Z")
    stream.send(
        "texts",
        [
            {"id": 1, "at": "2026-01-01T09:10:00Z"},
            {"id": 2, "at": None},
            {"id": 3, "at": "yesterday"},
            {"id": 4, "at": "9999-01-01T00:00:00Z"},
            {"id": 5, "at": "2026-01-01T09:20:00Z"},
        ],
    )
    stream.send(
        "skipped",
        [{"id": 1, "at": "2026-01-01T09:10:00Z"}, {"id": 2, "at": None}, {"id": 3, "at": "9999-01-01T00:00:00Z"}],
    )
    stream.send("numbers", [{"id": 1, "at": NINE_MS + MINUTE_MS}, {"id": 2, "at": None}, {"id": 3, "at": FAR_MS}])
    progress = stream.run()
    assert {name: progress[f"{name}_hourly"].rejected for name in names} == {"texts": 3, "skipped": 2, "numbers": 1}
    assert dead_letters(running, "texts.errors") == [
        ("event-time-future", 4),
        ("event-time-null", 2),
        ("event-time-null", 3),
    ]
    assert dead_letters(running, "numbers.errors") == [("event-time-null", 2)]
    assert not (running.place.topics / "skipped.errors").exists()
    assert [hours(stream, name) for name in names] == [[], [], [("09:00", 1)]]
    _die_before_keeping(running, "texts_hourly", "texts.errors")
    stream.send("texts", [{"id": 6, "at": "2026-01-01T09:40:00Z"}])
    stream.until("2026-01-01T10:00:00Z")
    assert [hours(stream, name) for name in names[:2]] == [[("09:00", 3)], [("09:00", 1)]]
    assert dead_letters(running, "texts.errors") == [
        ("event-time-future", 4),
        ("event-time-null", 2),
        ("event-time-null", 3),
    ]


def _die_before_keeping(running: Running, query: str, topic: str) -> None:
    """As if the process had died when its only batch was written, and the rows at fault were not kept yet."""
    shutil.rmtree(running.place.topics / topic)
    commits = running.place.checkpoint(query) / "commits"
    numbers = sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert numbers[0] == 0
    for number in numbers:
        running.uncommit(query, number)
    offsets = running.place.checkpoint(query) / "offsets"
    for number in numbers[1:]:
        for name in (str(number), f".{number}.crc"):
            (offsets / name).unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("bad", "code"), [(None, "event-time-null"), ("9999-01-01T00:00:00Z", "event-time-future")], ids=["null", "far"]
)
def test_a_time_that_is_none_may_stop_the_query_before_anything_is_written(
    running: Running, bad: str | None, code: str
) -> None:
    project(running.root, source("orders", "TIMESTAMP(3)"), hourly("orders"), "{on_error: stop}")
    stream = Rehearsal(running.root, running.spark, "2026-01-01T09:30:00Z")
    stream.send("orders", [{"id": 1, "at": "2026-01-01T09:10:00Z"}, {"id": 2, "at": bad}])
    for _ in range(2):
        with pytest.raises(QueryFailed) as failed:
            stream.run()
        assert failed.value.code == code
        assert "`orders`" in failed.value.message
    (file,) = (running.place.topics / "orders.v1").glob("*.json")
    file.write_text(file.read_text().replace(json.dumps(bad), '"2026-01-01T09:20:00Z"'))
    stream.until("2026-01-01T10:00:00Z")
    assert hours(stream, "orders") == [("09:00", 2)]


PAIRS = """
  - name: pairs
    sql: |
      SELECT a.id, b.id AS other FROM {{ source("lively") }} AS a
      LEFT JOIN {{ source("silent") }} AS b ON a.id = b.id AND b.at BETWEEN a.at AND a.at + INTERVAL '1' SECOND"""


@pytest.mark.parametrize("waits", [("silent",), ("lively", "silent")], ids="_".join)
def test_an_input_that_is_silent_does_not_hold_up_the_others_for_ever(running: Running, waits: tuple[str, ...]) -> None:
    both = ""
    for name in ("lively", "silent"):
        idle = ", idle_ms: 300" if name in waits else ""
        delay = "max_out_of_orderness_ms: 0"
        both += source(name, "TIMESTAMP(3)").replace(delay, delay + idle)
    project(running.root, both, PAIRS)
    ahead = [] if "lively" in waits else [{"id": 2, "at": "2026-01-01T09:30:00Z"}]
    running.drop("lively.v1", "1.json", [{"id": 1, "at": "2026-01-01T09:00:00Z"}, *ahead])
    checked = check(running.root)
    plan = plan_project(checked, compile_project(checked), select=(), allow_rebuild=())
    run = start(plan, running.spark, checked.place, checked.store, environ=checked.environ)
    looks = 0

    def idle_until_there() -> None:
        nonlocal looks
        looks += 1
        time.sleep(0.05)
        if any((checked.place.topics / "pairs").glob("*/_batch.json")) or looks > 5_000:
            run.stop()

    try:
        run.run_until_stopped(idle_until_there)
    finally:
        run.close()
    assert [(row["id"], row["other"]) for row in running.topic("pairs")] == [(1, None)]
