"""The schema of a query's state follows from declared columns alone: whichever input or file format has rows first."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError, PlanRefused
from tests.spark.running import Running

SHAPES = """
project: {name: shapes}
sources:
  - name: o
    topic: o.v1
    columns:
      - {name: oid, type: BIGINT}
      - {name: who, type: STRING}
      - {name: ts, type: TIMESTAMP(3)}
      - {name: ends, type: TIMESTAMP(3)}
    event_time: {column: ts, watermark: {max_out_of_orderness_ms: 0}}
  - name: p
    topic: p.v1
    columns: [{name: pid, type: BIGINT}, {name: oid, type: BIGINT}, {name: ts, type: TIMESTAMP(3)}]
    event_time: {column: ts, watermark: {max_out_of_orderness_ms: 0}}
models:
  - name: interval_join
    sql: >
      SELECT o.oid, p.pid FROM {{ source("o") }} AS o, {{ source("p") }} AS p
      WHERE o.oid = p.oid AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR
  - name: left_interval_join
    sql: >
      SELECT o.oid, p.pid FROM {{ source("o") }} AS o LEFT JOIN {{ source("p") }} AS p
      ON o.oid = p.oid AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR
  - name: own_bound_join
    sql: >
      SELECT o.oid, p.pid FROM {{ source("o") }} AS o LEFT JOIN {{ source("p") }} AS p
      ON o.oid = p.oid AND p.ts BETWEEN o.ts AND o.ends
  - name: change_join
    sql: >
      SELECT o.oid, p.pid FROM {{ source("o") }} AS o LEFT JOIN {{ source("p") }} AS p
      ON o.oid = p.oid WHERE o.who IS NOT NULL
  - name: version_join
    sql: >
      SELECT p.pid, o.who FROM {{ source("p") }} AS p JOIN {{ source("o") }} FOR SYSTEM_TIME AS OF p.ts AS o
      ON o.oid = p.oid
  - name: windows
    sql: >
      SELECT HOP_START(ts, INTERVAL '30' MINUTE, INTERVAL '1' HOUR) AS at, COUNT(*) AS n FROM EITHER
      GROUP BY HOP(ts, INTERVAL '30' MINUTE, INTERVAL '1' HOUR)
  - name: sessions
    sql: >
      SELECT oid, COUNT(*) AS n FROM EITHER GROUP BY oid, SESSION(ts, INTERVAL '1' HOUR)
  - name: firsts
    sql: >
      SELECT oid, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY oid ORDER BY ts) AS rn FROM EITHER)
      WHERE rn = 1
  - name: recent
    sql: >
      SELECT oid, ts, COUNT(*) OVER (PARTITION BY oid ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n
      FROM EITHER
  - name: counts
    sql: >
      SELECT oid, COUNT(*) AS n, MAX(ts) AS latest FROM EITHER GROUP BY oid
  - name: moments
    sql: >
      SELECT DISTINCT oid, ts FROM EITHER
""".replace(
    "EITHER",
    """(
        SELECT oid, ts FROM {{ source("o") }} WHERE who IS NOT NULL UNION ALL SELECT oid, ts FROM {{ source("p") }})""",
)


def put(root: Path, topic: str, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """A file of an embedded topic, in the format that its name ends with."""
    path = root / ".penstock" / "topics" / topic / name
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case ".csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        case ".parquet":
            table = pa.Table.from_pylist(list(rows))
            for name in sorted({"ts", "ends"} & set(table.column_names)):
                time = table.column(name).cast(pa.timestamp("us", "UTC"))
                table = table.set_column(table.column_names.index(name), name, time)
            pq.write_table(table, path)


def o(oid: int, minute: int) -> dict[str, Any]:
    time = f"2026-01-01T00:{minute:02d}:00Z"
    return {"oid": oid, "who": f"w{oid}", "ts": time, "ends": "2026-01-01T01:00:00Z"}


def p(pid: int, oid: int, minute: int) -> dict[str, Any]:
    return {"pid": pid, "oid": oid, "ts": f"2026-01-01T00:{minute:02d}:00Z"}


END, END_KEYS = "2026-01-01T09:00:00Z", 90


@pytest.mark.parametrize(
    ("files", "pairs"),
    [
        ((("o.json",), ("p.csv",), ("o.parquet", "p.json")), [(1, 12), (1, 13), (3, 12), (3, 13)]),
        (((), ("p.parquet", "o.csv"), ("o.json",)), [(2, 12), (3, 12)]),
    ],
)
def test_every_shape_goes_on_whichever_input_and_format_had_rows_first(
    running: Running, files: Sequence[Sequence[str]], pairs: list[tuple[int, int]]
) -> None:
    running.write({"stream_project.yml": SHAPES})
    sent: list[tuple[int, int]] = []
    for number, names in enumerate(files, 1):
        for name in names:
            source, form = name.split(".")
            rows = [o(number, number)] if source == "o" else [p(10 + number, n, number + 10) for n in (1, 2, 3)]
            put(running.root, f"{source}.v1", f"{number}.{form}", rows)
            sent += [(row["oid"], int(row["ts"][14:16])) for row in rows]
        if number == len(files):
            put(running.root, "o.v1", "end.json", [{"oid": 99, "who": "end", "ts": END, "ends": END}])
            put(running.root, "p.v1", "end.json", [{"pid": 99, "oid": 98, "ts": END}])
        running.run()
    for name in ("interval_join", "left_interval_join", "own_bound_join"):
        found = sorted((r["oid"], r["pid"]) for r in running.topic(name) if r["oid"] < END_KEYS)
        assert found == pairs, name
    signs = {"i": 1, "u": 1, "d": -1}
    net: Counter[tuple[int, int | None]] = Counter()
    for row in running.topic("change_join"):
        net[row["oid"], row["pid"]] += signs[row["_gs_op"]]
    assert +net == Counter([*pairs, (99, None)])
    assert sorted((int(r["who"][1:]), r["pid"]) for r in running.topic("version_join")) == pairs

    def minutes(topic: str, key: str, column: str) -> list[tuple[int, int]]:
        return sorted((r[key], r[column].minute) for r in running.topic(topic) if r[key] < END_KEYS)

    counts = Counter(oid for oid, _ in sent)
    assert [r["n"] for r in running.topic("windows")] == [len(sent)] * 2
    assert {r["oid"]: r["n"] for r in running.topic("sessions")} == counts
    assert minutes("recent", "oid", "ts") == sorted(sent)
    assert Counter(r["oid"] for r in running.topic("recent") if r["n"] > 1) == counts - Counter(counts.keys())
    assert minutes("moments", "oid", "ts") == sorted(sent)
    first = {oid: row["ts"].minute for oid, row in table(running, "firsts", "oid").items() if oid < END_KEYS}
    assert first == {oid: min(m for key, m in sent if key == oid) for oid in counts}
    totals = {oid: (row["n"], row["latest"].minute) for oid, row in table(running, "counts", "oid").items()}
    assert {oid: value for oid, value in totals.items() if oid < END_KEYS} == {
        oid: (n, max(m for key, m in sent if key == oid)) for oid, n in counts.items()
    }


EVOLVING = """
project: {name: evolving}
sources:
  - name: s
    topic: s.v1
    columns: [{name: id, type: BIGINT}, {name: v, type: BIGINT}, {name: at, type: TIMESTAMP(3)}]
models:
  - name: p
    sql: SELECT id, v, at FROM {{ source("s") }}
  - name: q
    sql: >
      SELECT id, v FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v DESC) AS rn FROM {{ ref("p") }}) WHERE rn = 1
  - name: w
    sql: >
      SELECT * FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v DESC) AS rn FROM {{ ref("p") }}) WHERE rn = 1
  - name: a
    sql: SELECT id AS k, COUNT(*) AS n FROM {{ source("s") }} GROUP BY id
  - name: b
    sql: SELECT n, COUNT(*) AS c FROM {{ ref("a") }} GROUP BY n
"""
WIDER = EVOLVING.replace("SELECT id, v, at", "SELECT id, v * 2 AS twice, v, at").replace(
    "AS n FROM", "AS n, MAX(v) AS m FROM"
)


def s(number: int, v: int) -> dict[str, Any]:
    return {"id": number, "v": v, "at": "2026-01-01T00:00:00Z"}


def table(running: Running, topic: str, key: str) -> dict[Any, dict[str, Any]]:
    """The changes of a topic applied in the order in which they were written."""
    folder = running.root / ".penstock" / "topics" / topic
    files = sorted(folder.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    rows: dict[Any, dict[str, Any]] = {}
    for row in (row for file in files for row in pq.read_table(file).to_pylist()):
        if row.pop("_gs_op", "i") == "d":
            rows.pop(row[key], None)
        else:
            rows[row[key]] = row
    return rows


def test_readers_go_on_when_a_column_comes_and_goes_upstream(running: Running) -> None:
    running.write({"stream_project.yml": EVOLVING})
    running.drop("s.v1", "1.json", [s(1, 10), s(2, 20)])
    running.run()
    running.write({"stream_project.yml": WIDER})
    running.drop("s.v1", "2.json", [s(1, 11), s(2, 5), s(3, 30)])
    running.run(allow_rebuild=["a"])
    whole = {i: (r["v"], r["twice"]) for i, r in table(running, "w", "id").items() if "twice" in r}
    assert whole == {1: (11, 22), 3: (30, 60)}
    running.write({"stream_project.yml": EVOLVING})
    running.drop("s.v1", "3.json", [s(3, 31), s(1, 1)])
    running.run(allow_rebuild=["a"])
    assert {i: r["v"] for i, r in table(running, "q", "id").items()} == {1: 11, 2: 20, 3: 31}
    assert {i: r["v"] for i, r in table(running, "w", "id").items()} == {1: 11, 2: 20, 3: 31}
    assert {n: r["c"] for n, r in table(running, "b", "n").items()} == {3: 1, 2: 2}
    other = EVOLVING.replace("SELECT id, v, at", "SELECT id, CAST(v AS DECIMAL(20, 2)) AS v, at")
    running.write({"stream_project.yml": other})
    with pytest.raises(PlanRefused, match="`v` of `p` was BIGINT and is DECIMAL"):
        running.run(select=["q"])
    origin = running.place.checkpoint("q") / "state-origin.json"
    document = json.loads(origin.read_text())
    assert document["partitions"] == int(running.spark.newSession().conf.get("spark.sql.shuffle.partitions") or 0)
    origin.write_text(json.dumps({**document, "declared": {}}))
    with pytest.raises(PenstockError) as failed:
        running.run(select=["q"])
    assert "`q` must be rebuilt: `v` is BIGINT in its state, and DECIMAL(20,2) in its rows" in str(failed.value)


DELAYED = """
project: {name: delayed}
sources:
  - name: o
    topic: o.v1
    columns: [{name: oid, type: BIGINT}, {name: ts, type: TIMESTAMP(3)}]
    event_time: {column: ts, watermark: {max_out_of_orderness_ms: DELAY}}
models:
  - name: windows
    sql: SELECT COUNT(*) AS n FROM {{ source("o") }} GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)
  - name: pairs
    sql: >
      SELECT l.oid, r.ts FROM {{ source("o") }} AS l JOIN {{ source("o") }} AS r
      ON l.oid = r.oid AND r.ts > l.ts AND r.ts <= l.ts + INTERVAL '1' HOUR
  - name: counts
    sql: >
      SELECT oid, COUNT(*) AS n FROM {{ source("o") }} GROUP BY oid
"""


def at(oid: int, time: str) -> dict[str, Any]:
    return {"oid": oid, "ts": f"2026-01-01T{time}Z"}


def test_state_goes_on_with_another_delay_of_the_watermark(running: Running) -> None:
    running.write({"stream_project.yml": DELAYED.replace("DELAY", "30000")})
    running.drop("o.v1", "1.json", [at(1, "00:10:00"), at(2, "00:59:50"), at(1, "01:00:20")])
    running.run()
    assert table(running, "windows", "n") == {}
    running.write({"stream_project.yml": DELAYED.replace("DELAY", "60000")})
    running.drop("o.v1", "2.json", [at(2, "00:59:55"), at(2, "01:02:00")])
    running.run()
    assert [row["n"] for row in running.topic("windows")] == [3]
    found = sorted((row["oid"], row["ts"].strftime("%H:%M:%S")) for row in running.topic("pairs"))
    assert found == [(1, "01:00:20"), (2, "00:59:55"), (2, "01:02:00"), (2, "01:02:00")]
    assert {oid: row["n"] for oid, row in table(running, "counts", "oid").items()} == {1: 2, 2: 3}
