"""Where a pipeline keeps its offsets: in a file, in PostgreSQL, or nowhere. Without a checkpoint it goes on by them."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.retry import wait_until
from penstock.dev import postgres as dev
from penstock.errors import PenstockError, PlanRefused, QueryFailed
from penstock.plan.deployed.offsets import OffsetStore
from penstock.plan.steps import RestartQuery
from penstock.runtime.run.supervisor import Run
from penstock.workflow.stages import check
from tests.endpoint import Endpoint, Says, endpoint
from tests.services.kafka import Broker, consume, delete_all, new_topic, produce, rows_of
from tests.services.live_runs import done, live
from tests.services.postgres import Database
from tests.spark.running import Running

PIPELINE = """
sources:
  numbers: {{type: kafka, topic: {topic}, data_format: json, schema: {{id: int64}}}}
sinks:
  out: {{type: kafka, from: numbers, topic: {topic}.out, data_format: json, topic_partitions: 1, primary_key: id,
        deduplicate: false}}
"""


class Kept:
    """A pipeline from a topic with two partitions to another."""

    def __init__(self, running: Running, broker: Broker) -> None:
        self.topic, self.broker = new_topic(), broker
        KafkaAdmin(broker.plain).create(self.topic, 2, 1, {})
        self.running = Running(running.root, running.spark, "pipeline.yml")
        self.running.write({"pipeline.yml": PIPELINE.format(topic=self.topic)})

    def sent(self, *numbers: int) -> None:
        produce(self.broker.plain, self.topic, *({"id": number} for number in numbers))

    def out(self) -> list[int]:
        return sorted(row["id"] for row in rows_of(consume(self.broker.plain, f"{self.topic}.out")))

    def lose_the_disk(self) -> None:
        shutil.rmtree(self.running.root / ".penstock")


@pytest.fixture
def kept(running: Running, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Kept:
    for side in ("SOURCE", "SINK"):
        monkeypatch.setenv(f"PENSTOCK__KAFKA_{side}__BROKERS", broker.plain.servers)
    monkeypatch.setenv("PENSTOCK__APPLICATION_ID", new_topic())
    return Kept(running, broker)


@pytest.fixture
def in_postgres(kept: Kept, database: Database, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setenv("STREAMLING__STATE_BACKEND__BACKEND_TYPE", "Postgres")
    told = {"HOST": "127.0.0.1", "PORT": database.port, "USER": dev.USER, "PASSWORD": dev.PASSWORD, "DB": dev.DATABASE}
    for name, value in {**told, "SSLMODE": "disable"}.items():
        monkeypatch.setenv(f"STREAMLING__STATE_BACKEND__POSTGRES__{name}", str(value))
    return kept


def offsets_in(database: Database, kept: Kept) -> dict[str, int]:
    namespace = kept.running.place.offsets_namespace
    rows = database.rows(f"SELECT key, data->>'offset' FROM streamling.state WHERE namespace = '{namespace}'")
    return {key: int(offset) for key, offset in rows}


def test_a_machine_without_the_old_disk_goes_on_where_the_database_says(in_postgres: Kept, database: Database) -> None:
    in_postgres.sent(*range(20))
    in_postgres.running.run()
    found = offsets_in(database, in_postgres)
    assert found.keys() == {f"numbers:{in_postgres.topic}:{number}" for number in (0, 1)}
    assert sum(found.values()) == 20
    in_postgres.lose_the_disk()
    in_postgres.sent(*range(20, 30))
    run = in_postgres.running.begun()
    assert [type(step) for step in run.plan.steps if hasattr(step, "query")] == [RestartQuery]
    run.close()
    assert in_postgres.running.run()["numbers"].rows_in == 10
    assert in_postgres.out() == list(range(30))
    assert sum(offsets_in(database, in_postgres).values()) == 30


def test_a_rebuild_begins_again_whatever_was_kept(in_postgres: Kept) -> None:
    in_postgres.sent(1, 2)
    in_postgres.running.run()
    in_postgres.lose_the_disk()
    in_postgres.running.run(allow_rebuild=["numbers"])
    assert in_postgres.out() == [1, 1, 2, 2]


def test_records_that_are_gone_behind_a_kept_offset_are_told(in_postgres: Kept) -> None:
    in_postgres.sent(*range(10))
    in_postgres.running.run()
    in_postgres.lose_the_disk()
    in_postgres.sent(*range(10, 20))
    delete_all(in_postgres.broker.plain, in_postgres.topic)
    with pytest.raises(QueryFailed) as caught:
        in_postgres.running.run()
    assert caught.value.code == "records-gone"


def test_a_topic_that_was_made_anew_is_not_taken_for_the_one_that_offsets_are_of(in_postgres: Kept) -> None:
    cluster, topic = in_postgres.broker.plain, in_postgres.topic
    in_postgres.sent(*range(4))
    in_postgres.running.run()
    in_postgres.lose_the_disk()
    client = AdminClient(cluster.librdkafka_settings())
    client.delete_topics([topic])[topic].result(timeout=30)
    time.sleep(1)
    KafkaAdmin(cluster).create(topic, 2, 1, {})
    in_postgres.sent(*range(100, 140))
    with pytest.raises(QueryFailed, match="was created again after it was read up to"):
        in_postgres.running.run()


def test_one_process_at_a_time_runs_a_pipeline_whose_state_is_in_a_database(in_postgres: Kept) -> None:
    checked = check(in_postgres.running.root / "pipeline.yml")
    place, store = checked.place, checked.store
    with store.hold_lock(place.namespace):
        with pytest.raises(PlanRefused) as refused, store.hold_lock(place.namespace):
            pytest.fail("two hold one lock")
        with store.hold_lock("another"):
            pass
    assert refused.value.code == "already-running"
    with store.hold_lock(place.namespace):
        pass


def test_a_lock_that_is_lost_is_taken_again_unless_somebody_has_it(in_postgres: Kept, database: Database) -> None:
    checked = check(in_postgres.running.root / "pipeline.yml")
    place, store = checked.place, checked.store
    ended = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_locks WHERE locktype = 'advisory'"
    with store.hold_lock(place.namespace) as hold:
        hold.check()
        assert database.rows(ended) == [("1",)]
        hold.check()
        with pytest.raises(PlanRefused), store.hold_lock(place.namespace):
            pytest.fail("two hold one lock")
        assert database.rows(ended) == [("1",)]
        with store.hold_lock(place.namespace), pytest.raises(PlanRefused) as refused:
            hold.check()
    assert refused.value.code == "already-running"


HOLDER = """
import subprocess, sys
from pathlib import Path
from penstock.workflow.stages import check

checked = check(Path(sys.argv[1]))
with checked.store.hold_lock(checked.place.namespace) as hold:
    spark = subprocess.Popen(["sleep", "600"], pass_fds=hold.descriptors, start_new_session=True)
    print(spark.pid, flush=True)
    sys.stdin.read()
"""


def test_spark_holds_the_lock_in_a_database_when_its_runner_was_killed(in_postgres: Kept) -> None:
    file = in_postgres.running.root / "pipeline.yml"
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=file.parent) as holder:
        assert holder.stdout is not None
        spark = int(holder.stdout.readline())
        holder.kill()
        holder.wait()
        checked = check(file)
        try:
            with pytest.raises(PlanRefused), checked.store.hold_lock(checked.place.namespace):
                pytest.fail("two hold one lock")
        finally:
            os.kill(spark, signal.SIGKILL)

        def is_free() -> bool:
            with suppress(PlanRefused), checked.store.hold_lock(checked.place.namespace):
                return True
            return False

        wait_until(is_free, 60)
        assert is_free()


def test_a_database_that_is_not_there_is_named(in_postgres: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLING__STATE_BACKEND__POSTGRES__PORT", "1")
    with pytest.raises(PenstockError) as caught:
        in_postgres.running.begun()
    assert (caught.value.code, "127.0.0.1:1" in caught.value.message) == ("unreachable", True)


def test_a_file_keeps_offsets_under_the_same_names(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK__STATE_BACKEND__SQLITE__DATABASE_PATH", "kept.db")
    kept.sent(*range(5))
    kept.running.run()
    connection = sqlite3.connect(kept.running.root / "kept.db")
    rows = connection.execute(
        "SELECT key, data FROM state WHERE namespace = ?", (kept.running.place.offsets_namespace,)
    )
    found = {key: json.loads(data) for key, data in rows}
    connection.close()
    assert sum(document["offset"] for document in found.values()) == 5
    assert {type(document["updated_at"]) for document in found.values()} == {int}
    kept.lose_the_disk()
    kept.running.run()
    assert kept.out() == list(range(5))


@pytest.fixture
def grouped(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """Records 0 to 4 in one partition, of which a group has read four, and 5 to 9 in one that it does not know."""
    group = new_topic()
    monkeypatch.setenv("PENSTOCK__KAFKA_SOURCE__CONSUMER_GROUP_ID", group)
    for partition in (0, 1):
        numbers = range(5 * partition, 5 * partition + 5)
        produce(kept.broker.plain, kept.topic, *({"id": number} for number in numbers), partition=partition)
    KafkaAdmin(kept.broker.plain).commit(f"{group}-numbers", {(kept.topic, 0): 4})
    return kept


@pytest.mark.parametrize("backend", ["Sqlite", "InMemory"])
def test_a_first_start_goes_on_where_its_group_of_consumers_is(
    grouped: Kept, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK__STATE_BACKEND__BACKEND_TYPE", backend)
    run = grouped.running.begun()
    (step,) = (step for step in run.plan.steps if isinstance(step, RestartQuery))
    run.close()
    assert "consumer group" in step.reason
    grouped.running.run()
    assert grouped.out() == [4, 5, 6, 7, 8, 9]
    grouped.sent(10)
    grouped.running.run()
    assert grouped.out() == [4, 5, 6, 7, 8, 9, 10]


def test_partitions_that_a_group_does_not_know_begin_where_the_source_says(grouped: Kept) -> None:
    pipeline = grouped.running.root / "pipeline.yml"
    pipeline.write_text(pipeline.read_text().replace("data_format", "starting_offsets: latest, data_format", 1))
    grouped.running.run()
    assert grouped.out() == [4]


def test_what_the_store_knows_is_stronger_than_a_group_and_a_rebuild_than_both(grouped: Kept) -> None:
    checked = check(grouped.running.root / "pipeline.yml")
    OffsetStore(checked.store, checked.place.offsets_namespace).put(
        "numbers", {(grouped.topic, 0): 0, (grouped.topic, 1): 0}
    )
    grouped.running.run()
    assert grouped.out() == list(range(10))
    grouped.lose_the_disk()
    grouped.running.run(allow_rebuild=["numbers"])
    assert grouped.out() == sorted([*range(10)] * 2)


def test_without_a_memory_every_run_begins_afresh(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK__STATE_BACKEND__BACKEND_TYPE", "InMemory")
    kept.sent(1, 2)
    kept.running.run()
    kept.running.run()
    assert kept.out() == [1, 1, 2, 2]
    assert not (kept.running.root / ".penstock" / "state.db").exists()


# Several sinks


HOOK = """\
  hook: {{type: webhook, from: numbers, url: '{url}', retry_for: 100ms, isolate: {alone}, primary_key: id,
         parallelism: 1}}
"""
"""A batch is one request: of several, some may have been taken when the batch is done again for the sake of others."""


@dataclass(frozen=True)
class Hooked:
    """A pipeline whose rows go to a webhook besides. How far it is, by what the database and the groups say."""

    kept: Kept
    database: Database
    hook: Endpoint

    def reached(self, reader: str) -> tuple[int, int]:
        """The records that a reader is done with: by the database, and by its group."""
        offsets = offsets_in(self.database, self.kept) if self.database.has("streamling.state") else {}
        group = self.kept.running.place.group(reader)
        told = KafkaAdmin(self.kept.broker.plain).committed_offsets(group, [self.kept.topic])
        in_store = sum(at for key, at in offsets.items() if key.startswith(f"{reader}:{self.kept.topic}:"))
        return in_store, sum(told.values())

    def have(self, *, out: int, hook: int) -> bool:
        """Whether each of the two has so many, the first ones, each of them once."""
        return self.kept.out() == list(range(out)) and sorted(self.hook.ids) == list(range(hook))


@pytest.fixture
def hooked(in_postgres: Kept, database: Database, request: pytest.FixtureRequest) -> Iterator[Hooked]:
    with endpoint() as hook:
        pipeline = in_postgres.running.root / "pipeline.yml"
        pipeline.write_text(pipeline.read_text() + HOOK.format(url=hook.url, alone=request.param))
        yield Hooked(in_postgres, database, hook)


@pytest.mark.parametrize("hooked", ["false"], indirect=True)
def test_offsets_are_those_that_every_sink_of_a_read_has(hooked: Hooked) -> None:
    """One of two sinks has a batch already, and none may go on before the other has it, too."""
    stayed: list[tuple[int, int]] = []

    def fails_for_a_while(run: Run) -> bool:
        stayed.append(hooked.reached("numbers"))
        return run.board.snapshot()[0].state == "retrying" and len(stayed) > 4

    hooked.kept.sent(*range(10))
    live(
        hooked.kept.running,
        lambda _: hooked.reached("numbers") == (10, 10),
        done(lambda: setattr(hooked.hook, "always", Says(503))),
        done(lambda: hooked.kept.sent(*range(10, 20))),
        lambda _: hooked.have(out=20, hook=10),
        fails_for_a_while,
        done(lambda: setattr(hooked.hook, "always", Says())),
        lambda _: hooked.reached("numbers") == (20, 20),
    )
    assert set(stayed) == {(10, 10)}
    assert hooked.have(out=20, hook=20)


@pytest.mark.parametrize("hooked", ["true"], indirect=True)
def test_a_sink_that_reads_for_itself_has_offsets_of_its_own(hooked: Hooked) -> None:
    hooked.kept.sent(*range(10))
    live(
        hooked.kept.running,
        lambda _: (hooked.reached("numbers"), hooked.reached("hook")) == ((10, 10), (10, 10)),
        done(lambda: setattr(hooked.hook, "always", Says(503))),
        done(lambda: hooked.kept.sent(*range(10, 15))),
        lambda run: {row.query: row.state for row in run.board.snapshot()}["hook"] == "retrying",
        done(lambda: hooked.kept.sent(*range(15, 20))),
        lambda _: (hooked.reached("numbers"), hooked.reached("hook")) == ((20, 20), (10, 10)),
        lambda _: hooked.have(out=20, hook=10),
        done(lambda: setattr(hooked.hook, "always", Says())),
        lambda _: hooked.reached("hook") == (20, 20),
    )
    assert hooked.have(out=20, hook=20)
