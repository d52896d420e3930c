"""What a project lives through: a broker that goes away for a while and comes back, a partition that is added."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.dev import kafka as dev_kafka
from penstock.dev import processes
from penstock.errors import QueryFailed
from penstock.runtime.dead_letters.store import KafkaDeadLetters
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check
from tests.services.kafka import consume, produce, rows_of
from tests.services.live_runs import Step, done, live, paused, resumed
from tests.spark.running import Running

PROJECT = """
project: {{name: faults}}
runtime:
  kafka: {{bootstrap_servers: "{servers}", config: {{{config}}}}}
sources:
  - {{name: events, topic: events, columns: [{{name: id, type: BIGINT}}]}}
models:
  - {{name: seen, sql: 'SELECT id FROM {{{{ source("events") }}}}'}}
"""
IMPATIENT = "default.api.timeout.ms: 5000, request.timeout.ms: 4000, delivery.timeout.ms: 5000, linger.ms: 0"
"""How long anybody waits for an answer, where none comes."""


class Mortal:
    """A broker of one test, which may end and come back."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = processes.free_port()
        self.cluster = KafkaCluster(f"127.0.0.1:{self.port}")
        self.up()

    def up(self) -> None:
        dev_kafka.up(self.home, port=self.port)

    def down(self) -> None:
        processes.stop(self.home)


@pytest.fixture
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    broker = Mortal(tmp_path_factory.mktemp("mortal"))
    try:
        KafkaAdmin(broker.cluster).create("events", 1, 1, {})
        yield broker
    finally:
        broker.down()


def seen(broker: Mortal) -> set[int]:
    return {row["id"] for row in rows_of(consume(broker.cluster, "seen"))}


def written(running: Running, broker: Mortal, project: str = PROJECT, config: str = "") -> Running:
    return running.write({"stream_project.yml": project.format(servers=broker.cluster.servers, config=config)})


def sends(broker: Mortal, *ids: int) -> Step:
    return done(lambda: produce(broker.cluster, "events", *({"id": number} for number in ids)))


def test_a_broker_that_is_gone_for_a_while_loses_nothing(running: Running, mortal: Mortal) -> None:
    gone: list[float] = []
    live(
        written(running, mortal, config=IMPATIENT),
        sends(mortal, 1, 2),
        lambda run: run.board.snapshot()[0].rows_out >= 2,
        done(mortal.down),
        done(lambda: gone.append(time.monotonic())),
        lambda run: run.board.snapshot()[0].state == "retrying" or time.monotonic() > gone[0] + 20,
        done(mortal.up),
        sends(mortal, 3),
        lambda _: seen(mortal) == {1, 2, 3},
    )


def test_a_broker_that_stands_still_for_a_while_loses_nothing(running: Running, mortal: Mortal) -> None:
    since: list[float] = []
    live(
        written(running, mortal, config=IMPATIENT),
        sends(mortal, 1, 2),
        lambda run: run.board.snapshot()[0].rows_out >= 2,
        paused(mortal.home),
        done(lambda: since.append(time.monotonic())),
        lambda _: time.monotonic() > since[0] + 15,  # three times as long as anybody waits for an answer
        resumed(mortal.home),
        sends(mortal, 3),
        lambda _: seen(mortal) == {1, 2, 3},
    )


def test_a_partition_that_is_added_is_read(running: Running, mortal: Mortal) -> None:
    def into_the_new_one() -> None:
        produce(mortal.cluster, "events", *((f"key {n}", {"id": n}) for n in range(10, 30)))

    live(
        written(running, mortal),
        sends(mortal, 1),
        lambda run: run.board.snapshot()[0].rows_out >= 1,
        done(lambda: KafkaAdmin(mortal.cluster).add_partitions("events", 3)),
        done(into_the_new_one),
        lambda _: seen(mortal) == {1, *range(10, 30)},
    )


def test_records_that_are_gone_before_they_are_read_stop_the_query(running: Running, mortal: Mortal) -> None:
    written(running, mortal)
    produce(mortal.cluster, "events", *({"id": number} for number in range(5)))
    running.run()
    produce(mortal.cluster, "events", *({"id": number} for number in range(5, 20)))
    client = AdminClient(mortal.cluster.librdkafka_settings())
    (deleted,) = client.delete_records([TopicPartition("events", 0, 12)]).values()
    deleted.result(timeout=30)
    with pytest.raises(QueryFailed, match="events/0: the records 5 to 11 are gone and were never read") as failed:
        running.run()
    assert failed.value.code == "records-gone"
    running.run(allow_rebuild=["seen"])
    assert seen(mortal) == {*range(5), *range(12, 20)}


def test_records_that_are_gone_while_the_query_runs_stop_it(running: Running, mortal: Mortal) -> None:
    producer = Producer({**mortal.cluster.librdkafka_settings(), "transactional.id": "tests"})
    producer.init_transactions(30)

    def gone_before_anybody_sees_them() -> None:
        producer.begin_transaction()
        for number in range(5, 20):
            producer.produce("events", json.dumps({"id": number}))
        producer.flush(30)
        client = AdminClient(mortal.cluster.librdkafka_settings())
        (deleted,) = client.delete_records([TopicPartition("events", 0, 12)]).values()
        deleted.result(timeout=30)
        producer.commit_transaction(30)

    with pytest.raises(QueryFailed, match="events/0: the records 5 to 11 are gone and were never read") as failed:
        live(
            written(running, mortal),
            sends(mortal, *range(5)),
            lambda run: run.board.snapshot()[0].rows_out >= 5,
            done(gone_before_anybody_sees_them),
            lambda _: seen(mortal) > {*range(5)},
        )
    assert failed.value.code == "records-gone"


def made_anew(broker: Mortal, records: int) -> None:
    client = AdminClient(broker.cluster.librdkafka_settings())
    client.delete_topics(["events"])["events"].result(timeout=30)
    time.sleep(1)
    KafkaAdmin(broker.cluster).create("events", 1, 1, {})
    produce(broker.cluster, "events", *({"id": 100 + number} for number in range(records)))


def test_a_topic_that_is_made_anew_stops_the_query(running: Running, mortal: Mortal) -> None:
    written(running, mortal).run()
    made_anew(mortal, 5)  # nothing was read of the one before
    running.run()
    made_anew(mortal, 1)
    with pytest.raises(QueryFailed, match="events/0 ends at 1, and was read up to 5: it was created again"):
        running.run()
    produce(mortal.cluster, "events", *({"id": 101 + number} for number in range(9)))
    for _ in range(2):
        with pytest.raises(QueryFailed, match="events/0 was created again after it was read up to 5") as failed:
            running.run()
        assert failed.value.code == "records-gone"
    running.run(allow_rebuild=["seen"])
    assert seen(mortal) == {*range(100, 110)}


def test_a_topic_that_is_made_anew_between_two_batches_stops_the_query(running: Running, mortal: Mortal) -> None:
    seldom = PROJECT.rstrip("}\n") + ", advanced: {{spark: {{trigger: {{interval_ms: 120000}}}}}}}}\n"
    written(running, mortal, seldom)
    produce(mortal.cluster, "events", *({"id": number} for number in range(5)))
    # It may be looked at before it is filled again: then it ends too early.
    with pytest.raises(
        QueryFailed, match=r"events/0 (was created again after it was|ends at \d, and was) read up to 5"
    ):
        live(
            running,
            lambda run: run.board.snapshot()[0].rows_out >= 5,
            # Batches begin at multiples of the interval: none while the topic is away.
            lambda _: time.time() % 120 < 80,
            done(lambda: made_anew(mortal, 10)),
            lambda _: seen(mortal) > {*range(5)},
        )


def test_records_of_aborted_transactions_are_none(running: Running, mortal: Mortal) -> None:
    producer = Producer({**mortal.cluster.librdkafka_settings(), "transactional.id": "tests"})
    producer.init_transactions(30)
    for numbers, ends in (((1, 2), "commit"), ((3, 4), "abort"), ((5,), "commit")):
        producer.begin_transaction()
        for number in numbers:
            producer.produce("events", json.dumps({"id": number}))
        producer.flush(30)
        (producer.commit_transaction if ends == "commit" else producer.abort_transaction)(30)
    progress = written(running, mortal).run()["seen"]
    assert (progress.rows_out, progress.rejected) == (3, 0)
    assert seen(mortal) == {1, 2, 5}
    producer.begin_transaction()
    producer.produce("events", json.dumps({"id": 6}))
    producer.abort_transaction(30)
    assert running.run()["seen"].rows_out == 0


_COMPACTED = [(0, "first"), (20, "same key"), (21, "another")]


def test_gaps_that_compaction_leaves_are_passed_over(running: Running, mortal: Mortal) -> None:
    admin = KafkaAdmin(mortal.cluster)
    quick = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    admin.set_config("events", {**quick, "delete.retention.ms": "100", "max.compaction.lag.ms": "100"})
    produce(mortal.cluster, "events", ("first", {"id": -1}))
    for number in range(20):
        produce(mortal.cluster, "events", ("same key", {"id": number}))
    time.sleep(0.3)
    produce(mortal.cluster, "events", ("another", {"id": 100}))
    ends = time.monotonic() + 300
    while (left := [(r.offset, r.key) for r in consume(mortal.cluster, "events")]) != _COMPACTED:
        assert time.monotonic() < ends, f"the broker never compacts: {left}"
        time.sleep(1)
    progress = written(running, mortal).run()["seen"]
    assert (progress.rows_out, progress.rejected) == (3, 0)
    assert [row["id"] for row in rows_of(consume(mortal.cluster, "seen"))] == [-1, 19, 100]
    produce(mortal.cluster, "events", ("later", {"id": 101}))
    assert written(running, mortal).run()["seen"].rows_out == 1
    assert [row["id"] for row in rows_of(consume(mortal.cluster, "seen"))] == [-1, 19, 100, 101]


def test_a_large_record_that_cannot_be_read_is_kept_whole(running: Running, mortal: Mortal) -> None:
    KafkaAdmin(mortal.cluster).set_config("events", {"max.message.bytes": "20000000"})
    large = b"no JSON " * 1_250_000
    produce(mortal.cluster, "events", {"id": 1}, large, {"id": 2}, **{"message.max.bytes": 20_000_000})
    progress = written(running, mortal).run()["seen"]
    assert (progress.rows_out, progress.rejected) == (2, 1)
    (dead_letter,) = consume(mortal.cluster, "events.errors")
    assert dead_letter.value == large
    assert dead_letter.headers["penstock.code"] == "not-json"


def test_dead_letters_that_are_not_written_in_time_are_written_by_the_next_start(
    running: Running, mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    write = KafkaDeadLetters.write

    def slowly(*arguments: Any) -> int:
        begun.set()
        goes_on.wait(60)
        return write(*arguments)

    produce(mortal.cluster, "events", {"id": 1}, b"gibberish")
    with monkeypatch.context() as patched:
        patched.setattr(KafkaDeadLetters, "write", slowly)
        run = written(running, mortal).begun()

        def look() -> None:
            if begun.wait(0.2):
                run.stop()

        try:
            run.run_until_stopped(look)
            undone = run.drain(lambda: None, time.monotonic() + 0.5)
        finally:
            goes_on.set()
            run.close()
    assert {name: failure.code for name, failure in undone.items()} == {"seen": "not-drained"}
    running.run()
    assert [dead_letter.about["offset"] for dead_letter in pending_dead_letters(check(running.root), None)] == [1]


def test_what_is_gone_before_it_was_looked_through_is_told_and_does_not_stop_the_query(
    running: Running, mortal: Mortal
) -> None:
    produce(mortal.cluster, "events", {"id": 0}, b"gibberish", {"id": 1}, b"gibberish", {"id": 2})
    written(running, mortal).run()
    mark = running.place.checkpoint("seen") / "looked-through.json"
    assert json.loads(mark.read_text()) == {"events": {"0": 5}}
    client = AdminClient(mortal.cluster.librdkafka_settings())

    def killed_with_records_gone(looked_through: int, gone: int) -> set[str]:
        """What is said when the process died behind a batch and nobody came for long."""
        mark.write_text(json.dumps({"events": {"0": looked_through}}))
        (deleted,) = client.delete_records([TopicPartition("events", 0, gone)]).values()
        deleted.result(timeout=30)
        progress = running.run()["seen"]
        assert (progress.rows_out, progress.kept_in) == (0, ("events.errors",))
        found = pending_dead_letters(check(running.root), "events")
        return {x.about["message"].partition(" were deleted")[0] for x in found if x.about["code"] == "records-gone"}

    assert killed_with_records_gone(0, 2) == {"the records 0 to 1"}
    assert [r.headers["penstock.offset"] for r in consume(mortal.cluster, "events.errors")[2:] if r.value] == ["3"]
    assert killed_with_records_gone(3, 5) == {"the records 0 to 1", "the records 3 to 4"}
