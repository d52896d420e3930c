"""Records of embedded topics that are no rows: each is a dead letter with its file and line, the others are read."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.clients.dead_letters.model import DeadLetter, read_from_directories
from penstock.errors import QueryFailed
from tests.spark.running import Running

PROJECT = """
project: {name: shop}
models:
  - name: copied
    sql: SELECT id, amount, at FROM {{ source('orders') }}
  - name: numbers
    sql: SELECT id FROM {{ source('orders') }}
"""
SOURCE = """
sources:
  - name: orders
    topic: orders.v1
    on_error: ON_ERROR
    columns:
      - {name: id, type: BIGINT}
      - {name: amount, type: "DECIMAL(10, 2)"}
      - {name: at, type: TIMESTAMP(3)}
"""


def project(running: Running, on_error: str = "dead_letter") -> Path:
    running.write({"stream_project.yml": PROJECT, "sources/orders.yml": SOURCE.replace("ON_ERROR", on_error)})
    topic = running.root / ".penstock" / "topics" / "orders.v1"
    topic.mkdir(parents=True)
    return topic


def dead_letters(running: Running) -> list[DeadLetter]:
    return list(read_from_directories(running.root / ".penstock" / "topics", ["orders.errors"]))


def told(running: Running) -> list[tuple[str, int, str, str]]:
    found = (dead_letter.about for dead_letter in dead_letters(running) if dead_letter.node == "model.copied")
    return sorted((x["topic"].removeprefix("orders.v1/"), x["offset"], x["code"], x["message"]) for x in found)


def test_bad_records_of_an_embedded_topic_are_dead_letters_with_file_and_line(running: Running) -> None:
    topic = project(running)
    lines: list[bytes] = [
        b'{"id": 1, "amount": 1.5, "at": "2024-01-01T00:00:00Z"}',
        b'{"id": 2, "amo',
        b"",
        b'{"id": 3, "amount": "abc"}',
        b'{"id": 4, "at": "soon"}',
        b'{"id": 78}{"id": 79}',
        '{"id": 80}\u2028{"id": 81}'.encode(),
        b'{"id": 5, "amount": 12.345}',
        b'{"id": 6, "id": 7}',
        b'{"id": 8, "at": "\xff"}',
        b'{"id": 9, "at": 1704067200123}',
        b'{"id": 10, "at": 50000000000}',
        b'{"id": 11, "amount": 2.50, "at": 1704067200}',
    ]
    (topic / "a b.jsonl").write_bytes(b"\n".join(lines))
    with gzip.open(topic / "z.json.gz", "wb") as file:
        file.write(b'nope\n{"id": 20}\n')
    (topic / "c.csv").write_text(
        'id,amount,at\n30,1.25,2024-01-01T00:00:00Z\n31,abc,\n32,1.255,\nx,1,\n33,1\n34,"1","2024-01-02"\n'
    )
    progress = running.run()["copied"]
    assert {dead_letter.node for dead_letter in dead_letters(running)} == {"model.copied", "model.numbers"}
    rows = running.topic("copied")
    assert sorted(row["id"] for row in rows) == [1, 9, 11, 20, 30, 34]
    times = {row["id"]: row["at"].isoformat() for row in rows if row["id"] in (9, 11)}
    assert times == {9: "2024-01-01T00:00:00.123000", 11: "2024-01-01T00:00:00"}
    assert told(running) == [
        ("a b.jsonl", 2, "not-json", "Unexpected end-of-input in field name, at character 15"),
        ("a b.jsonl", 4, "field-mismatch", "`amount`: `abc` is not a DECIMAL(10,2)"),
        ("a b.jsonl", 5, "field-mismatch", "`at`: `soon` is not a TIMESTAMP"),
        ("a b.jsonl", 6, "not-json", 'there is more text after the object: `{"id": 79}`'),
        ("a b.jsonl", 7, "not-json", 'there is more text after the object: `\u2028{"id": 81}`'),
        ("a b.jsonl", 8, "field-mismatch", "`amount`: `12.345` is not a DECIMAL(10,2) without rounding it"),
        ("a b.jsonl", 9, "duplicate-key", "the key `id` occurs twice in one object"),
        ("a b.jsonl", 10, "not-text", "its byte 18 is not UTF-8"),
        ("a b.jsonl", 12, "field-mismatch", "`at`: `50000000000` is not a TIMESTAMP by a unit that its size tells"),
        ("c.csv", 3, "field-mismatch", "`amount`: `abc` is not a DECIMAL(10,2)"),
        ("c.csv", 4, "field-mismatch", "`amount`: `1.255` is not a DECIMAL(10,2)"),
        ("c.csv", 5, "field-mismatch", "`id`: `x` is not a BIGINT"),
        ("c.csv", 6, "not-csv", "its line does not have the columns of the file"),
        ("z.json.gz", 1, "not-json", "Unrecognized token 'nope', at character 1"),
    ]  # fmt: skip
    assert progress.rejected == 14
    assert sorted(row["id"] for row in running.topic("numbers")) == [1, 9, 11, 20, 30, 34]
    assert {x.value for x in dead_letters(running) if x.code == "not-text"} == {lines[9]}

    running.uncommit("copied", 0)
    running.run()
    assert len(running.topic("copied")) == 6
    assert len(told(running)) == 14


def test_a_bad_record_stops_the_query_where_that_is_wanted_and_is_named(running: Running) -> None:
    topic = project(running, "stop")
    (topic / "a.jsonl").write_text('{"id": 1}\n{"id": 2, "amount": "abc"}\n')
    with pytest.raises(QueryFailed) as failed:
        running.run()
    assert failed.value.code == "field-mismatch"
    assert "a record of `orders` cannot be read: `amount`: `abc` is not a DECIMAL(10,2), in" in failed.value.message
    assert "orders.v1/a.jsonl" in failed.value.message
    assert dead_letters(running) == []


def test_a_topic_without_declared_columns_is_read_without_its_bad_records(running: Running) -> None:
    running.write({"stream_project.yml": PROJECT, "sources/orders.yml": "sources: [{name: orders, topic: orders.v1}]"})
    rows: list[dict[str, Any]] = [{"id": n, "amount": n / 2, "at": "2024-01-01"} for n in range(20)]
    lines = [json.dumps(row) for row in rows]
    bad = ['{"id": 90, "id": 91}', '{"id": 92, "amount": "abc", "at": ""}', "broken"]
    topic = running.root / ".penstock" / "topics" / "orders.v1"
    topic.mkdir(parents=True)
    (topic / "a.jsonl").write_text("\n".join([*lines[:5], *bad, *lines[5:]]))
    running.run()
    assert sorted(row["id"] for row in running.topic("copied")) == list(range(20))
    assert [(line, code) for _, line, code, _ in told(running)] == [
        (6, "duplicate-key"), (7, "field-mismatch"), (8, "not-json"),
    ]  # fmt: skip


def test_a_csv_file_with_another_header_is_left_out_and_a_query_with_state_says_what_it_has(running: Running) -> None:
    topic = project(running)
    (topic / "1.csv").write_text("id,amount,at\n1,1.5,\n")
    (topic / "2.csv").write_text("number,amount,at\n2,1.5,\n")
    (topic / "3.csv").write_text("id,amount\n3,1.5\n")
    (topic / "4.json").write_text('{"id": 4}\n')
    (topic / "5.parquet").write_text("PAR1 and no more")
    progress = running.run()["copied"]
    assert sorted(row["id"] for row in running.topic("copied")) == [1, 4]
    assert (progress.rows_in, progress.rejected) == (2, 3)
    found = {x.about["topic"].rpartition("/")[2]: x for x in dead_letters(running) if x.node == "model.copied"}
    assert {name: x.code for name, x in found.items()} == dict.fromkeys(
        ("2.csv", "3.csv", "5.parquet"), "file-unreadable"
    )
    header = "its header is 'number, amount, at', and the columns are 'id, amount, at'"
    assert found["2.csv"].about["message"] == header
    assert found["3.csv"].about["message"] == "its header has 2 columns, and there should be 3"
    assert running.run()["copied"].rows_in == 0

    grouped = "SELECT amount, COUNT(*) AS n FROM {{ source('orders') }} GROUP BY amount"
    counts = f'  - {{name: counts, key: amount, sql: "{grouped}"}}\n'
    (topic / "5.parquet").unlink()
    (topic / "3.csv").unlink()
    running.write({"stream_project.yml": PROJECT + counts})
    with pytest.raises(QueryFailed, match=header) as failed:
        running.run()
    assert "2.csv cannot be read" in failed.value.message
