"""Rows over HTTP: from executors to a real server, which fails as it is told to."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.connectors.webhook import WebhookSink
from penstock.errors import PlanRefused, ServiceError
from penstock.project.application_settings import settings_from
from penstock.runtime.replay.output_replay import ReplayResult
from penstock.runtime.replay.replay import replay_dead_letters
from penstock.testing.contract import FIRST
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check, compile_project
from tests import endpoint as servers
from tests.endpoint import HANG, RESET, Received, Says
from tests.process.cli import children
from tests.spark.running import Running

SECRET = {"PENSTOCK__HTTP_SECRET_HEADER__PARTNER": "X-Api-Key", "STREAMLING__HTTP_SECRET_VALUE__PARTNER": "hunter22"}


@pytest.fixture
def server() -> Iterator[servers.Endpoint]:
    with servers.endpoint() as found:
        yield found


def sink(server: servers.Endpoint, environ: dict[str, str] | None = None, **options: Any) -> WebhookSink:
    found = WebhookSink.model_validate({"from": "rows", "url": server.url, **options})
    return found.with_settings(settings_from(environ or {}), "hook")


def numbers(spark: SparkSession, count: int, parts: int = 1) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr("id", "'i' AS _gs_op")


def test_an_empty_batch_sends_no_request(spark: SparkSession, server: servers.Endpoint) -> None:
    sink(server).write(numbers(spark, 0), FIRST)
    assert server.received == []


# What is sent


def test_a_request_is_a_list_of_rows_with_nulls_and_their_operation(
    spark: SparkSession, server: servers.Endpoint
) -> None:
    rows = spark.sql("SELECT 'u' AS _gs_op, 1L AS id, 'ä' AS name, CAST(NULL AS INT) AS note, struct(2 AS x) AS s")
    assert sink(server).write(rows, FIRST).rows == 1
    (request,) = server.taken
    assert request.body.decode() == '[{"id":1,"name":"ä","note":null,"s":{"x":2},"_gs_op":"u"}]\n'
    assert request.headers["Content-Type"] == "application/json"
    assert request.path == "/notify"


def test_rows_stand_on_lines_of_their_own(spark: SparkSession, server: servers.Endpoint) -> None:
    sink(server, batch_size=2).write(numbers(spark, 3), FIRST)
    assert sorted(request.body for request in server.taken) == [
        b'[{"id":0,"_gs_op":"i"},\n{"id":1,"_gs_op":"i"}]\n',
        b'[{"id":2,"_gs_op":"i"}]\n',
    ]


def test_the_other_payload_has_the_operation_beside_the_row(spark: SparkSession, server: servers.Endpoint) -> None:
    rows = spark.sql("SELECT 1L AS id, 'd' AS _gs_op")
    sink(server, payload_version=1).write(rows, FIRST)
    assert server.taken[0].json == [{"metadata": {"op": "d"}, "data": {"id": 1}}]


def test_a_request_may_be_one_row(spark: SparkSession, server: servers.Endpoint) -> None:
    sink(server, one_row_per_request=True, batch_size=50).write(numbers(spark, 3), FIRST)
    assert sorted(request.body for request in server.taken) == [b'{"id":%d,"_gs_op":"i"}' % n for n in range(3)]


def test_requests_are_filled_across_arrow_batches(spark: SparkSession, server: servers.Endpoint) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        assert sink(server, batch_size=10).write(numbers(spark, 45), FIRST).rows == 45
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sorted(len(request.rows) for request in server.taken) == [5, 10, 10, 10, 10]
    assert sorted(server.ids) == list(range(45))


def test_the_settings_say_how_many_rows_and_how_many_at_once(spark: SparkSession, server: servers.Endpoint) -> None:
    def answers_when_there_are_three(request: Received) -> Says:
        if server.at_once == 3:
            server.released.set()
        return Says(does="wait")

    server.judge = answers_when_there_are_three
    settings = {"TRIGGER_MAX_COUNT": "4", "BUFFER_SIZE": "3"}
    environ = {f"STREAMLING__EXTERNAL_HTTP_HANDLER__{name}": value for name, value in settings.items()}
    sink(server, environ).write(numbers(spark, 40), FIRST)
    assert {len(request.rows) for request in server.taken} == {4}
    assert server.most_at_once == 3


def test_headers_are_sent_and_the_secret_one_too(spark: SparkSession, server: servers.Endpoint) -> None:
    headers = {"content-type": "application/x-ndjson", "X-Team": "core"}
    hook = sink(server, SECRET, headers=headers, secret_name="partner")
    hook.write(numbers(spark, 1), FIRST)
    sent = {name.lower(): value for name, value in server.taken[0].headers.items()}
    assert (sent["x-team"], sent["x-api-key"], sent["content-type"]) == ("core", "hunter22", "application/x-ndjson")
    assert "hunter22" not in repr(hook) + repr(hook._sender(FIRST, "stop")) + hook.model_dump_json()


def test_a_secret_that_is_nowhere_to_be_found_is_refused(spark: SparkSession, server: servers.Endpoint) -> None:
    with pytest.raises(PlanRefused) as refused:
        sink(server, secret_name="PARTNER").write(numbers(spark, 1), FIRST)
    assert refused.value.code == "unset-variable"
    assert "PENSTOCK__HTTP_SECRET_HEADER__PARTNER" in refused.value.message


# Keys of requests, and order


def keys(requests: list[Received]) -> list[str]:
    return [request.headers["Idempotency-Key"] for request in requests]


def test_a_batch_that_is_done_again_repeats_its_keys(spark: SparkSession, server: servers.Endpoint) -> None:
    for _ in range(2):
        sink(server, batch_size=10).write(numbers(spark, 100, 2), FIRST)
    sent = keys(server.taken)
    assert len(set(sent)) == 10
    assert sorted(sent[:10]) == sorted(sent[10:])


@pytest.mark.parametrize(
    "options", [{"primary_key": "id"}, {"primary_key": "id", "parallelism": 2}, {"parallelism": 2}], ids=str
)
def test_keys_are_repeated_in_whatever_order_tasks_hear_from_each_other(
    spark: SparkSession, server: servers.Endpoint, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    rows = numbers(spark, 400, 4)
    shuffled, seeds = type(rows).repartition, iter(range(2))
    monkeypatch.setattr(
        type(rows), "repartition", lambda *given: shuffled(*given).sortWithinPartitions(f.rand(next(seeds)))
    )
    for _ in range(2):
        assert sink(server, batch_size=10, **options).write(rows, FIRST).rows == 400
    assert next(seeds, None) is None
    assert dict.fromkeys(keys(server.taken), 2) == Counter(keys(server.taken))


def test_no_two_requests_of_different_batches_share_a_key(spark: SparkSession, server: servers.Endpoint) -> None:
    others = (
        FIRST,
        replace(FIRST, batch_id=1),
        replace(FIRST, checkpoint_id="1"),
        replace(FIRST, output="sink.x"),
        replace(FIRST, query="q"),
    )
    for ref in others:
        sink(server).write(spark.sql("SELECT 1L AS id"), ref)
    sink(server).write(spark.sql("SELECT 2L AS id"), FIRST)
    assert len(set(keys(server.taken))) == 6


def test_rows_of_a_key_arrive_in_their_order(spark: SparkSession, server: servers.Endpoint) -> None:
    server.always = Says(does="slow")
    server.plan = [Says(503) for _ in range(10)]
    rows = spark.range(0, 400, 1, 4).selectExpr("id", "id % 50 AS customer")
    assert sink(server, primary_key="customer", batch_size=5, parallelism=2).write(rows, FIRST).rows == 400
    for customer in range(50):
        assert [row["id"] for request in server.taken for row in request.rows if row["customer"] == customer] == list(
            range(customer, 400, 50)
        )
    assert server.most_at_once > 1


# Failures


@pytest.mark.parametrize("says", [Says(500), Says(429, headers={"Retry-After": "0"}), RESET])
def test_what_passes_leaves_no_gap(spark: SparkSession, server: servers.Endpoint, says: Says) -> None:
    server.plan = [says] * 5
    assert sink(server, batch_size=10).write(numbers(spark, 100, 2), FIRST).rows == 100
    assert sorted(server.ids) == list(range(100))


def test_a_server_that_hangs_is_asked_again(spark: SparkSession, server: servers.Endpoint) -> None:
    server.plan = [HANG]
    assert sink(server, timeout="300ms").write(numbers(spark, 5), FIRST).rows == 5


def failure(hook: WebhookSink, rows: DataFrame) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        hook.write(rows, FIRST)
    return caught.value


@pytest.mark.parametrize(
    ("says", "code", "retriable"),
    [
        (Says(404, b"who?"), "http-refused", False),
        (Says(301, headers={"Location": "/new"}), "http-refused", False),
        (Says(503, b"later"), "http-failed", True),
        (HANG, "unreachable", True),
        (RESET, "unreachable", True),
    ],
)
def test_what_does_not_pass_stops_the_query(
    spark: SparkSession, server: servers.Endpoint, says: Says, code: str, retriable: bool
) -> None:
    server.always = says
    timeout = "200ms" if says is HANG else "60s"
    error = failure(sink(server, batch_size=3, retry_for="300ms", timeout=timeout), numbers(spark, 7, 2))
    assert (error.code, error.retriable) == (code, retriable)
    assert "3 rows of `sink.contract`" in error.message


def test_a_refusal_lets_go_of_what_is_under_way(spark: SparkSession, server: servers.Endpoint) -> None:
    server.judge = lambda request: Says(400, b"bad") if request.rows[0]["id"] == 5 else HANG
    error = failure(sink(server, batch_size=1), numbers(spark, 8))
    assert error.code == "http-refused"
    assert "answered 400 Bad Request: bad" in error.message


def test_no_message_shows_the_secret(spark: SparkSession, server: servers.Endpoint) -> None:
    server.judge = lambda request: Says(403, json.dumps(request.headers).encode())
    headers = {"Authorization": "Bearer abcdefgh"}
    error = failure(sink(server, SECRET, secret_name="PARTNER", headers=headers), numbers(spark, 1))
    assert "403" in error.message
    for secret in ("hunter22", "abcdefgh", "/notify"):
        assert secret not in str(error) + json.dumps(error.to_json())


# As a part of a pipeline

PIPELINE = """
sources:
  numbers:
    type: generator
    rows: 20
    columns: {id: {kind: sequence}}
transforms: {}
sinks:
  hook: {type: webhook, from: numbers, url: "${URL}", batch_size: 5, %s}
"""


@pytest.fixture
def pipeline(running: Running, server: servers.Endpoint) -> Running:
    running.write({".env": f"URL={server.url}\n"})
    return Running(running.root, running.spark, "pipeline.yml")


def refusing(number: int) -> Any:
    return lambda request: Says(422, b"no") if any(row["id"] == number for row in request.rows) else None


def test_a_pipeline_sends_its_rows(pipeline: Running, server: servers.Endpoint) -> None:
    progress = pipeline.write({"pipeline.yml": PIPELINE % "primary_key: id"}).run()["numbers"]
    assert (progress.rows_out, progress.rejected) == (20, 0)
    assert sorted(server.ids) == list(range(20))


def test_a_refusal_ends_the_run_and_names_the_sink(pipeline: Running, server: servers.Endpoint) -> None:
    server.judge = refusing(7)
    with pytest.raises(ServiceError) as caught:
        pipeline.write({"pipeline.yml": PIPELINE % "primary_key: id"}).run()
    assert caught.value.code == "http-refused"
    assert "`sink.hook`" in str(caught.value)
    assert "query `numbers`" in str(caught.value)
    server.judge = lambda request: None
    pipeline.run()
    assert set(server.ids) == set(range(20))


def test_a_batch_that_several_sinks_share_is_let_go_of_when_one_of_them_fails(
    pipeline: Running, server: servers.Endpoint
) -> None:
    kept: Any = pipeline.spark.sparkContext._jsc
    before = {*kept.getPersistentRDDs()}
    server.judge = refusing(7)
    pipeline.write({"pipeline.yml": PIPELINE % "primary_key: id" + "  other: {type: memory, from: numbers}\n"})
    with pytest.raises(ServiceError) as caught:
        pipeline.run()
    assert {*kept.getPersistentRDDs()} <= before
    assert caught.value.code == "http-refused"


@pytest.mark.parametrize("how", ["skip_on_error: true", "on_error: skip"])
@pytest.mark.parametrize("status", [404, 500])
def test_refused_rows_are_skipped_and_counted(
    pipeline: Running, server: servers.Endpoint, how: str, status: int
) -> None:
    server.judge = lambda request: Says(status) if any(row["id"] == 7 for row in request.rows) else None
    progress = pipeline.write({"pipeline.yml": PIPELINE % how}).run()["numbers"]
    assert progress.rows_out + progress.rejected == 20
    assert 1 <= progress.rejected <= 5
    assert (7 in server.ids, len(server.ids)) == (False, progress.rows_out)


def test_refused_rows_are_kept_with_what_was_said(pipeline: Running, server: servers.Endpoint) -> None:
    server.judge = refusing(7)
    progress = pipeline.write({"pipeline.yml": PIPELINE % "on_error: dead_letter, parallelism: 1"}).run()["numbers"]
    assert (progress.rows_out, progress.rejected, progress.kept_in) == (15, 5, ("hook.errors",))
    dead_letters = pipeline.topic("hook.errors")
    assert 7 in {json.loads(dead_letter["value"])["id"] for dead_letter in dead_letters}
    assert len(dead_letters) == 5
    assert {(x["code"], x["node"]) for x in dead_letters} == {("row-refused", "sink.hook")}
    assert "answered 422" in dead_letters[0]["message"]
    assert len(server.received) == 4, "letters are written without asking the server again"


FROM_FILES = """
sources:
  numbers: {type: file, path: in, format: json, mode: {type: bounded}}
transforms:
  shares: {type: sql, primary_key: id, sql: "SELECT id, 100 / %s AS share FROM numbers"}
sinks:
  hook: {type: webhook, from: shares, url: "${URL}", on_error: dead_letter}
"""


def test_rows_that_are_delivered_again_and_refused_are_kept(pipeline: Running, server: servers.Endpoint) -> None:
    pipeline.write({"pipeline.yml": FROM_FILES % "(id - 2)", "in/1.json": '{"id": 1}\n{"id": 2}\n'}).run()
    pipeline.write({"pipeline.yml": FROM_FILES % "id"})
    checked = check(pipeline.root / "pipeline.yml")

    def again() -> ReplayResult:
        about = (pipeline.spark, checked.place, checked.store, checked.environ, checked.clusters)
        return replay_dead_letters(compile_project(checked), "sink.hook", pending_dead_letters(checked, None), *about)

    server.judge = refusing(2)
    assert again() == ReplayResult(0, 1)
    assert [dead_letter.code for dead_letter in pending_dead_letters(checked, None)] == ["row-refused"]
    server.judge = refusing(0)
    found = again()
    assert (found.written, found.failed, list(found.left.values())) == (0, 0, [1])
    assert [dead_letter.code for dead_letter in pending_dead_letters(checked, None)] == ["row-refused"]


def test_a_stop_does_not_wait_for_a_server_that_hangs(pipeline: Running, server: servers.Endpoint) -> None:
    server.always = HANG
    pipeline.write({"pipeline.yml": PIPELINE % "primary_key: id"})
    # None of its requests is still to come then: one that came later would be answered, and sent again by the next run.
    progress = pipeline.run_on(stop=lambda: sum(len(request.rows) for request in [*server.received]) == 20)["numbers"]
    assert (progress.state, progress.rows_out) == ("stopped", 0)
    assert server.at_once > 0, "the server has not answered yet"
    server.always = Says()
    assert pipeline.run()["numbers"].rows_out == 20
    assert sorted(server.ids) == list(range(20))


def test_a_server_that_is_down_for_a_while_does_not_end_a_run(pipeline: Running, server: servers.Endpoint) -> None:
    server.plan = [Says(503, b"soon")] * 2
    pipeline.write({"pipeline.yml": PIPELINE % "primary_key: id, retry_for: 0s"})
    progress = pipeline.run_on()["numbers"]
    assert (progress.state, progress.rows_out) == ("finished", 20)
    assert set(server.ids) == set(range(20))


def test_a_python_worker_that_is_killed_does_not_end_a_run_of_what_is_there(
    pipeline: Running, server: servers.Endpoint
) -> None:
    """`run --once` leaves services that are gone to whoever started it; a lost process is its own affair."""
    killed: list[int] = []

    def kill_workers(request: Received) -> Says | None:
        if killed:
            return None
        killed.extend(python_workers(os.getpid()))
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        return HANG

    server.judge = kill_workers
    progress = pipeline.write({"pipeline.yml": PIPELINE % "primary_key: id"}).run()["numbers"]
    assert killed
    assert (progress.state, progress.rows_out) == ("finished", 20)
    assert {*server.ids} == {*range(20)}


def python_workers(pid: int) -> list[int]:
    """What Spark's Python daemons have started, below a process."""
    jvms = children(pid)
    daemons = [daemon for jvm in jvms for daemon in children(jvm)]
    return [worker for daemon in daemons for worker in children(daemon)]
