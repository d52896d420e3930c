"""Windows on Spark: the examples of the fundamentals, and random rows against the same windows counted in Python."""

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

import pytest

from penstock.clients.files.formats import STREAM_OPTIONS
from tests.spark.running import Running

Event: TypeAlias = tuple[int, str, float, int]
"""Number, user, amount, and the second since `DAY` in which it happened."""
Span: TypeAlias = tuple[int, int]
DAY = datetime(2026, 1, 15, tzinfo=UTC)
MINUTE, HOUR = 60, 3600


@pytest.fixture(autouse=True)
def _one_file_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STREAM_OPTIONS, "maxBytesPerTrigger", "1")


def source(delay_s: int) -> str:
    return f"""
    sources:
      - name: orders
        topic: orders.v1
        columns:
          - {{name: id, type: BIGINT}}
          - {{name: user, type: STRING}}
          - {{name: amount, type: DOUBLE}}
          - {{name: at, type: TIMESTAMP(3)}}
        event_time:
          column: at
          watermark: {{max_out_of_orderness_ms: {delay_s * 1000}}}
    """


def project(**models: str) -> str:
    """Models by name. SQL that begins with `view:` is that of a view."""
    text = "project: {name: shop}\nmodels:\n"
    for name, sql in models.items():
        is_view, _, rest = sql.rpartition("view:")
        kind = "    materialized: virtual_topic\n" if is_view or sql.startswith("view:") else ""
        lines = "".join(f"      {line}\n" for line in rest.splitlines() if line.strip())
        text += f"  - name: {name}\n{kind}    advanced: {{spark: {{parallelism: 1}}}}\n    sql: |\n{lines}"
    return text


def drop(running: Running, number: int, events: Iterable[Event]) -> None:
    """One file of the topic. Files are read in the order of their ages."""
    rows = [
        {"id": i, "user": user, "amount": amount, "at": (DAY + timedelta(seconds=at)).isoformat()}
        for i, user, amount, at in events
    ]
    running.drop("orders.v1", f"{number:03}.jsonl", rows)
    file = running.root / ".penstock" / "topics" / "orders.v1" / f"{number:03}.jsonl"
    os.utime(file, (1_600_000_000 + number, 1_600_000_000 + number))


def at(clock: str) -> int:
    hours, minutes, *seconds = clock.split(":")
    return int(hours) * HOUR + int(minutes) * MINUTE + (int(seconds[0]) if seconds else 0)


def clock(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S") if moment.second else moment.strftime("%H:%M")


# The examples of the fundamentals


def test_rows_are_counted_when_they_happened_and_windows_are_those_of_the_text(running: Running) -> None:
    models = project(
        hourly="""
        SELECT TUMBLE_START(at, INTERVAL '1' HOUR) AS window_start, COUNT(*) AS order_count
        FROM {{ source("orders") }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)
        """,
        sliding="""
        SELECT HOP_START(at, INTERVAL '15' MINUTE, INTERVAL '1' HOUR) AS window_start, AVG(amount) AS avg_amount
        FROM {{ source("orders") }} GROUP BY HOP(at, INTERVAL '15' MINUTE, INTERVAL '1' HOUR)
        """,
        sessions="""
        SELECT user, SESSION_START(at, INTERVAL '10' MINUTE) AS session_start, COUNT(*) AS events_in_session
        FROM {{ source("orders") }} GROUP BY user, SESSION(at, INTERVAL '10' MINUTE)
        """,
    )
    running.write({"stream_project.yml": models, "sources/orders.yml": source(10 * MINUTE)})
    drop(running, 1, [(1, "ann", 10.0, at("9:10")), (2, "bob", 30.0, at("10:05"))])
    drop(running, 2, [(3, "ann", 20.0, at("9:55")), (4, "bob", 40.0, at("10:14"))])  # 9:55 comes after 10:05
    drop(running, 3, [(5, "ann", 0.0, at("13:00"))])
    running.run()
    hourly = {clock(row["window_start"]): row["order_count"] for row in running.topic("hourly")}
    assert hourly == {"09:00": 2, "10:00": 2}
    means = {clock(row["window_start"]): row["avg_amount"] for row in running.topic("sliding")}
    assert means == {
        "08:15": 10.0, "08:30": 10.0, "08:45": 10.0, "09:00": 15.0,
        "09:15": 30.0, "09:30": 30.0, "09:45": 30.0, "10:00": 35.0,
    }  # fmt: skip
    sessions = sorted((r["user"], clock(r["session_start"]), r["events_in_session"]) for r in running.topic("sessions"))
    assert sessions == [("ann", "09:10", 1), ("ann", "09:55", 1), ("bob", "10:05", 2)]


def test_a_window_is_put_out_when_the_watermark_passes_its_end_and_not_before(running: Running) -> None:
    sql = """
    SELECT window_start, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '1' HOUR))
    GROUP BY window_start, window_end
    """
    running.write({"stream_project.yml": project(hourly=sql), "sources/orders.yml": source(5)})
    times = ["9:58", "9:55", "10:02", "9:59", "10:01", "11:00:04"]
    drop(running, 1, [(n, "ann", 1.0, at(time)) for n, time in enumerate(times)])
    running.run()
    assert [(clock(row["window_start"]), row["n"]) for row in running.topic("hourly")] == [("09:00", 3)]
    drop(running, 2, [(9, "ann", 1.0, at("11:00:05"))])
    running.run()
    assert sorted((clock(row["window_start"]), row["n"]) for row in running.topic("hourly")) == [
        ("09:00", 3),
        ("10:00", 2),
    ]


def test_values_of_a_window_and_of_a_group_are_listed(running: Running) -> None:
    models = project(
        listed="""
        SELECT COLLECT(amount) AS amounts, COLLECT(DISTINCT user) AS users, JSON_ARRAYAGG(user) AS texts,
          COLLECT(id) FILTER (WHERE amount > 1) AS large, JSON_OBJECTAGG(KEY CAST(id AS STRING) VALUE amount) AS pairs
        FROM {{ source("orders") }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)
        """,
        grouped="""
        SELECT user, COLLECT(amount) AS amounts, COLLECT(DISTINCT amount) AS different
        FROM {{ source("orders") }} GROUP BY user
        """,
    )
    running.write({"stream_project.yml": models, "sources/orders.yml": source(0)})
    drop(running, 1, [(1, "ann", 1.0, at("09:00")), (2, "ben", 2.0, at("09:10")), (3, "ann", 1.0, at("09:20"))])
    drop(running, 2, [(4, "ann", 9.0, at("11:00"))])
    running.run()
    (listed,) = running.topic("listed")
    assert sorted(listed["amounts"]) == [1.0, 1.0, 2.0]
    assert (sorted(listed["users"]), listed["large"]) == (["ann", "ben"], [2])
    assert sorted(json.loads(listed["texts"])) == ["ann", "ann", "ben"]
    assert json.loads(listed["pairs"]) == {"1": 1.0, "2": 2.0, "3": 1.0}
    last = {row["user"]: row for row in sorted(running.topic("grouped"), key=lambda row: len(row["amounts"]))}
    assert sorted(last["ann"]["amounts"]) == [1.0, 1.0, 9.0]
    assert sorted(last["ann"]["different"]) == [1.0, 9.0]


# Random rows


DELAY = 60
MODELS = project(
    tumbling="""
    SELECT user, window_start, window_end, COUNT(*) AS n, COUNT(DISTINCT amount) AS different,
      SUM(amount) FILTER (WHERE amount > 50) AS large
    FROM TABLE(TUMBLE(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '10' MINUTES, INTERVAL '3' MINUTES))
    GROUP BY window_start, window_end, user
    HAVING COUNT(*) > 1
    """,
    parted="""
    SELECT user, window_start, window_end, COUNT(*) AS n
    FROM TABLE(SESSION(TABLE {{ source("orders") }} PARTITION BY user, DESCRIPTOR(at), INTERVAL '90' SECONDS))
    GROUP BY window_start, window_end, user
    """,
    whole="""
    SELECT SESSION_START(at, INTERVAL '20' SECOND) AS window_start, SESSION_END(at, INTERVAL '20' SECOND) AS window_end,
      COUNT(*) AS n
    FROM {{ source("orders") }} GROUP BY SESSION(at, INTERVAL '20' SECOND)
    """,
    so_far="""
    SELECT window_start, window_end, COUNT(*) AS n
    FROM TABLE(CUMULATE(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '5' MINUTES, INTERVAL '20' MINUTES))
    GROUP BY window_start, window_end
    """,
    busiest="""
    WITH kept AS (
      SELECT window_start, window_end, window_time AS moment, user
      FROM TABLE(TUMBLE(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '1' MINUTE))
      WHERE amount > 10
    ), counted AS (
      SELECT moment, COUNT(*) AS n FROM kept GROUP BY window_start, window_end, moment
    )
    SELECT window_start, window_end, MAX(n) AS most
    FROM TABLE(TUMBLE(TABLE counted, DESCRIPTOR(moment), INTERVAL '15' MINUTES))
    GROUP BY window_start, window_end
    """,
    by_minute="""
    SELECT user, window_start AS began, window_end AS closed, window_time AS moment, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, window_time, user
    """,
    renamed='view: SELECT began AS minute, n FROM {{ ref("by_minute") }}',
    across_topics="""
    SELECT TUMBLE_START(minute, INTERVAL '1' HOUR) AS window_start, TUMBLE_END(minute, INTERVAL '1' HOUR) AS window_end,
      SUM(n) AS n
    FROM {{ ref("renamed") }} GROUP BY TUMBLE(minute, INTERVAL '1' HOUR)
    """,
    minutes="""view:
    SELECT TUMBLE_ROWTIME(at, INTERVAL '1' MINUTE) AS moment, COUNT(*) AS n
    FROM {{ source("orders") }} GROUP BY TUMBLE(at, INTERVAL '1' MINUTE)
    """,
    through_a_view="""
    SELECT TUMBLE_START(moment, INTERVAL '1' HOUR) AS window_start, TUMBLE_END(moment, INTERVAL '1' HOUR) AS window_end,
      SUM(n) AS n
    FROM {{ ref("minutes") }} GROUP BY TUMBLE(moment, INTERVAL '1' HOUR)
    """,
    joined="""
    SELECT l.window_start, l.window_end, l.n, r.most
    FROM (
      SELECT window_start, window_end, COUNT(*) AS n
      FROM TABLE(TUMBLE(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '10' MINUTES))
      GROUP BY window_start, window_end
    ) AS l
    JOIN (
      SELECT window_start, window_end, MAX(amount) AS most
      FROM TABLE(TUMBLE(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '10' MINUTES))
      WHERE user = 'a'
      GROUP BY window_start, window_end
    ) AS r ON l.window_start = r.window_start AND l.window_end = r.window_end
    """,
    rows="""
    SELECT id, window_start, window_end
    FROM TABLE(HOP(TABLE {{ source("orders") }}, DESCRIPTOR(at), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))
    """,
)


def test_random_rows_give_the_windows_that_python_counts(running: Running) -> None:
    """In random batches, and with a restart. No row is later than the watermark lets it be."""
    seed = int(os.environ.get("PENSTOCK_SEED") or random.randrange(10**6))
    print(f"seed {seed}: PENSTOCK_SEED={seed} repeats it")
    dice = random.Random(seed)
    events = [
        (n, dice.choice("abc"), dice.choice([5.0, 20.0, 60.0, 99.0]), 8 * HOUR + n * 25 - dice.randrange(DELAY))
        for n in range(400)
    ]
    events.append((400, "a", 99.0, 8 * HOUR + 400 * 25))  # what a filter leaves out may not move the time on
    running.write({"stream_project.yml": MODELS, "sources/orders.yml": source(DELAY)})
    cuts = [0, *sorted(dice.sample(range(1, len(events)), 3)), len(events)]
    for number, (start, end) in enumerate(pairwise(cuts)):
        drop(running, number, events[start:end])
        if number in (1, 3):
            running.run()
    until = max(e[3] for e in events) - DELAY
    found = {name: closed_rows(running.topic(name)) for name in EXPECTED}
    for name, expected in EXPECTED.items():
        assert found[name] == sorted(expected(events, until), key=str), f"{name}, seed {seed}"
    minutes = {span[0] for span in _tumble_all(events, MINUTE) if span[1] <= until}
    hours = [row for row in _sums(events, HOUR, until, minutes) if row["window_end"] <= max(minutes) - DELAY]
    assert closed_rows(running.topic("across_topics")) == sorted(hours, key=str), f"seed {seed}"
    written = sorted((r["id"], *_seconds(r)) for r in running.topic("rows"))
    assert written == sorted((e[0], *span) for e in events for span in _hop(e[3], 5 * MINUTE, 10 * MINUTE))


def closed_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with times as seconds, in an order."""
    found = [{**row, "window_start": _seconds(row)[0], "window_end": _seconds(row)[1]} for row in rows]
    return sorted(found, key=str)


def _seconds(row: dict[str, Any]) -> Span:
    start, end = ((row[name].replace(tzinfo=UTC) - DAY).total_seconds() for name in ("window_start", "window_end"))
    return int(start), int(end)


Rows: TypeAlias = Iterator[dict[str, Any]]


def _grouped(events: Iterable[Event], key: Callable[[Event], Iterable[Any]]) -> dict[Any, list[Event]]:
    groups = defaultdict(list)
    for event in events:
        for one in key(event):
            groups[one].append(event)
    return groups


def _hop(moment: int, slide: int, size: int, offset: int = 0) -> list[Span]:
    last = moment - (moment - offset) % slide
    return [(start, start + size) for start in range(last, moment - size, -slide)]


def _tumble_all(events: Sequence[Event], size: int) -> set[Span]:
    return {span for event in events for span in _hop(event[3], size, size)}


def _tumbling(events: Sequence[Event], until: int) -> Rows:
    size = 10 * MINUTE
    groups = _grouped(events, lambda e: [(e[1], *span) for span in _hop(e[3], size, size, 3 * MINUTE)])
    for (user, start, end), rows in groups.items():
        if end <= until and len(rows) > 1:
            large = [e[2] for e in rows if e[2] > 50]
            yield {
                "user": user, "window_start": start, "window_end": end, "n": len(rows),
                "different": len({e[2] for e in rows}), "large": sum(large) if large else None,
            }  # fmt: skip


def _sessions(events: Iterable[Event], gap: int) -> Iterator[tuple[Span, int]]:
    times = sorted(e[3] for e in events)
    start, n = times[0], 0
    for time, following in zip(times, [*times[1:], None], strict=True):
        n += 1
        if following is None or following > time + gap:  # sessions that touch are one
            yield (start, time + gap), n
            start, n = following or 0, 0


def _parted(events: Sequence[Event], until: int) -> Rows:
    for user, rows in _grouped(events, lambda e: [e[1]]).items():
        for (start, end), n in _sessions(rows, 90):
            if end <= until:
                yield {"user": user, "window_start": start, "window_end": end, "n": n}


def _whole(events: Sequence[Event], until: int) -> Rows:
    for (start, end), n in _sessions(events, 20):
        if end <= until:
            yield {"window_start": start, "window_end": end, "n": n}


def _so_far(events: Sequence[Event], until: int) -> Rows:
    step, size = 5 * MINUTE, 20 * MINUTE

    def spans(event: Event) -> Iterator[Span]:
        start = event[3] - event[3] % size
        return ((start, end) for end in range(start + step, start + size + 1, step) if event[3] < end)

    for (start, end), rows in _grouped(events, spans).items():
        if end <= until:
            yield {"window_start": start, "window_end": end, "n": len(rows)}


def _busiest(events: Sequence[Event], until: int) -> Rows:
    minutes = _grouped([e for e in events if e[2] > 10], lambda e: _hop(e[3], MINUTE, MINUTE))
    most: dict[int, int] = defaultdict(int)
    for (start, _), rows in minutes.items():
        quarter = start - start % (15 * MINUTE)
        most[quarter] = max(most[quarter], len(rows))
    for start, n in most.items():
        if start + 15 * MINUTE <= until:
            yield {"window_start": start, "window_end": start + 15 * MINUTE, "most": n}


def _joined(events: Sequence[Event], until: int) -> Rows:
    for (start, end), rows in _grouped(events, lambda e: _hop(e[3], 10 * MINUTE, 10 * MINUTE)).items():
        own = [e[2] for e in rows if e[1] == "a"]
        if end <= until and own:
            yield {"window_start": start, "window_end": end, "n": len(rows), "most": max(own)}


def _sums(events: Sequence[Event], size: int, until: int, minutes: set[int] | None = None) -> Rows:
    counted = [e for e in events if minutes is None or e[3] - e[3] % MINUTE in minutes]
    for (start, end), rows in _grouped(counted, lambda e: _hop(e[3], size, size)).items():
        if end <= until:
            yield {"window_start": start, "window_end": end, "n": len(rows)}


EXPECTED: dict[str, Callable[[Sequence[Event], int], Rows]] = {
    "tumbling": _tumbling,
    "parted": _parted,
    "whole": _whole,
    "so_far": _so_far,
    "busiest": _busiest,
    "joined": _joined,
    "through_a_view": lambda events, until: _sums(events, HOUR, until),
}
