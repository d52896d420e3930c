"""Sources that read files or tables to their end and then a topic: nothing twice, nothing left out, ever."""

import json
import shutil
import time
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import PlanRefused, QueryFailed
from tests.services.kafka import Broker, consume, delete_all, new_topic, produce, rows_of
from tests.spark.running import Running

pytestmark = pytest.mark.as_deployed

PIPELINE = """
sources:
  orders:
    type: hybrid
    bounded_sources:
      - {{source_type: file, path: archive, format: json}}
      - {{source_type: file, path: newer, format: parquet}}
    unbounded_source:
      source_type: kafka
      topic: {topic}
      data_format: json
      schema: {{id: int64, name: string}}
      start_at: {start_at}
    primary_key: id
transforms: {{}}
sinks:
  out: {{type: {sink}, from: orders, {where}}}
"""


class Given:
    """Files of two ages, a topic, and a pipeline that reads them one after the other."""

    def __init__(self, running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running = Running(running.root, running.spark, "pipeline.yml")
        self.broker = broker
        self.topic = new_topic()
        KafkaAdmin(broker.plain).create(self.topic, 2, 1, {})
        for side in ("SOURCE", "SINK"):
            monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)

    def written(self, *, start_at: str = "earliest", sink: str = "file", where: str = "") -> "Given":
        where = where or "path: out, format: json"
        text = PIPELINE.format(topic=self.topic, start_at=start_at, sink=sink, where=where)
        self.running.write({"pipeline.yml": text})
        return self

    def filed(self, folder: str, ids: Iterable[int], **more: Any) -> "Given":
        rows = [{"id": n, "name": f"{folder} {n}", **more} for n in ids]
        directory = self.running.root / folder
        directory.mkdir(exist_ok=True)
        file = directory / f"{len(list(directory.iterdir()))}"
        if folder == "archive":
            file.with_suffix(".json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            import pyarrow as pa
            from pyarrow.parquet import write_table

            write_table(pa.Table.from_pylist(rows), file.with_suffix(".parquet"))
        return self

    def sent(self, ids: Iterable[int]) -> "Given":
        produce(self.broker.plain, self.topic, *((str(n), {"id": n, "name": f"topic {n}"}) for n in ids))
        return self

    def ids(self) -> list[int]:
        """What came out, read without any code of ours."""
        files = sorted((self.running.root / "out").glob("*-*/part-*.json"))
        return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())

    def note(self) -> dict[str, Any]:
        text = (self.running.place.checkpoint("orders") / "phases.json").read_text()
        return dict(json.loads(text)["source_orders"])


@pytest.fixture
def given(running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Given:
    return Given(running, broker, monkeypatch)


def test_files_come_first_and_then_the_topic_each_row_once(given: Given) -> None:
    given.written().filed("archive", range(10)).filed("newer", range(10, 20)).sent(range(20, 30))
    progress = given.running.run()["orders"]
    assert given.ids() == list(range(30))
    assert (progress.state, progress.rows_out, progress.phase) == ("finished", 30, "3 of 3")
    given.sent(range(30, 35)).filed("archive", range(90, 95))  # what comes to files later is not for this stream
    assert given.running.run()["orders"].rows_out == 5
    assert given.ids() == list(range(35))


def test_a_batch_that_was_written_and_not_committed_is_not_written_again_in_any_phase(given: Given) -> None:
    given.written().filed("archive", range(10)).filed("newer", range(10, 20)).sent(range(20, 30))
    run = given.running.begun()
    checkpoint = given.running.place.checkpoint("orders")
    batches: list[int] = []

    def idle() -> None:
        """Remember the last batch of each phase when the next one begins."""
        done = [int(path.name) for path in (checkpoint / "commits").glob("*") if path.name.isdigit()]
        batches.append(max(done, default=-1))
        time.sleep(0.02)

    run.run_once(idle)
    run.close()
    last = max(batches)
    given.running.uncommit("orders", last)
    assert given.running.run()["orders"].state == "finished"
    assert given.ids() == list(range(30))


def test_a_machine_without_the_old_disk_goes_on_with_the_topic_if_it_had_come_to_it(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK__STATE_BACKEND__SQLITE__DATABASE_PATH", "kept.db")
    given.written().filed("archive", range(10)).filed("newer", range(10, 20))
    run = given.running.begun()

    def idle() -> None:
        if given.note()["done"] >= 1:
            run.stop()
        time.sleep(0.02)

    run.run_once(idle)
    run.close()
    kept = given.ids()
    shutil.rmtree(given.running.root / ".penstock")
    with pytest.raises(PlanRefused, match="its checkpoint is missing"):
        given.running.run()
    assert given.ids() == kept
    shutil.rmtree(given.running.root / "out")
    given.sent(range(20, 30)).running.run(allow_rebuild=["orders"])
    assert given.ids() == list(range(30))
    shutil.rmtree(given.running.root / ".penstock")
    for number in range(30, 40, 5):
        assert given.sent(range(number, number + 5)).running.run()["orders"].rows_out == 5
        assert given.ids() == list(range(number + 5))


@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_run_that_ends_in_a_phase_goes_on_with_it(given: Given, done: int) -> None:
    given.written().filed("archive", range(10)).filed("newer", range(10, 20)).sent(range(20, 30))
    run = given.running.begun()

    def idle() -> None:
        if given.note()["done"] >= done:
            run.stop()
        time.sleep(0.02)

    run.run_until_stopped(idle)
    run.close()
    assert given.note()["done"] >= done
    assert given.running.run()["orders"].phase == "3 of 3"
    assert given.ids() == list(range(30))


def test_with_latest_the_topic_is_read_from_where_it_ended_when_the_first_phase_began(given: Given) -> None:
    given.written(start_at="latest").filed("archive", range(10)).filed("newer", range(10, 20)).sent(range(20, 30))
    run = given.running.begun()
    came: list[int] = []

    def idle() -> None:
        if not came:
            came.extend(range(30, 40))
            given.sent(came)
        time.sleep(0.02)

    run.run_once(idle)
    run.close()
    assert given.ids() == [*range(20), *range(30, 40)]


def test_with_a_time_the_topic_is_read_from_there(given: Given) -> None:
    given.sent(range(20, 30))
    time.sleep(0.05)
    middle = int(time.time() * 1000)
    time.sleep(0.05)
    given.written(start_at=str(middle)).filed("archive", range(5)).filed("newer", range(5, 10)).sent(range(30, 40))
    given.running.run()
    assert given.ids() == [*range(10), *range(30, 40)]


def test_a_job_ends_before_the_topic_and_asks_no_broker(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    given.written().filed("archive", range(10)).filed("newer", range(10, 20)).sent(range(20, 30))
    monkeypatch.setenv("PENSTOCK__JOB_MODE", "true")
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", "127.0.0.1:1")
    progress = given.running.run_on()["orders"]
    assert (progress.state, progress.phase) == ("finished", "2 of 2")
    assert given.ids() == list(range(20))
    given.filed("newer", range(90, 95))
    again = given.running.run_on()["orders"]
    assert (again.state, again.batches) == ("finished", 0)
    # without the setting, it goes on with the topic
    monkeypatch.delenv("PENSTOCK__JOB_MODE")
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", given.broker.plain.servers)
    given.running.run()
    assert given.ids() == list(range(30))


def test_spark_writes_the_topic_itself_once_it_comes_to_it(given: Given) -> None:
    given.written(sink="kafka", where=f"topic: {given.topic}.out, data_format: json, deduplicate: false")
    given.filed("archive", range(10)).filed("newer", range(10, 20)).sent(range(20, 30))
    produce(given.broker.plain, given.topic, b"no json")
    given.running.run()
    found = rows_of(consume(given.broker.plain, f"{given.topic}.out"))
    assert sorted(row["id"] for row in found) == list(range(30))
    dead_letters = [
        r for r in consume(given.broker.plain, "orders.errors") if r.headers.get("penstock.topic") == given.topic
    ]
    assert [dead_letter.headers["penstock.code"] for dead_letter in dead_letters] == ["not-json"]


def test_values_of_text_files_are_of_the_types_that_the_topic_has(given: Given) -> None:
    types = "id: int64, name: string, price: float64, weight: float32, fee: 'decimal(10,2)'"
    root = given.written().running.root
    text = (root / "pipeline.yml").read_text().replace("id: int64, name: string", types)
    (root / "pipeline.yml").write_text(text.replace("path: newer, format: parquet", "path: newer, format: csv"))
    for folder, name, content in (
        ("archive", "a.json", '{"id": 1, "name": 7, "price": 3, "weight": 2, "fee": 1.25}\n'),
        ("newer", "b.csv", "id,name,price,weight,fee\n2,007,4,1,5\n3,2026-01-01,4.5,0.25,6\n"),
    ):
        (root / folder).mkdir()
        (root / folder / name).write_text(content)
    produce(given.broker.plain, given.topic, {"id": 4, "name": "x", "price": 5, "weight": 0.5, "fee": 0.1})
    given.running.run()
    files = sorted((root / "out").glob("*-*/part-*.json"))
    rows = [json.loads(line, parse_float=str) for file in files for line in file.read_text().splitlines()]
    assert [tuple(row.values())[:5] for row in rows] == [
        (1, "7", "3.0", "2.0", "1.25"),
        (2, "007", "4.0", "1.0", "5.00"),
        (3, "2026-01-01", "4.5", "0.25", "6.00"),
        (4, "x", "5.0", "0.5", "0.10"),
    ]


def test_a_phase_without_a_column_is_refused_before_anything_is_written(given: Given) -> None:
    given.written().filed("archive", range(10))
    (given.running.root / "newer").mkdir()
    import pyarrow as pa
    from pyarrow.parquet import write_table

    for name in ("a", "b"):  # files that differ, so that validate does not know their columns
        write_table(pa.table({"id": [1], name: [2]}), given.running.root / "newer" / f"{name}.parquet")
    with pytest.raises(PlanRefused) as refused:
        given.running.run()
    assert refused.value.code == "phase-mismatch"
    assert "unbounded source column 'name' not found in bounded source" in refused.value.message
    assert "`bounded_sources.1`, files `newer`" in refused.value.message
    assert given.ids() == []


def test_records_that_are_gone_when_their_phase_begins_are_not_passed_over(given: Given) -> None:
    given.written(start_at="latest").filed("archive", range(10)).filed("newer", range(10, 20)).sent(range(20, 30))
    run = given.running.begun()

    def idle() -> None:
        time.sleep(0.02)
        if given.note()["done"] >= 1:
            run.stop()

    run.run_once(idle)
    run.close()
    given.sent(range(30, 40))
    delete_all(given.broker.plain, given.topic)
    with pytest.raises(QueryFailed) as failed:
        given.running.run()
    assert failed.value.code == "records-gone"
