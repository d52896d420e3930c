"""What a user sees of wrong credentials, tables that do not fit and servers that answer strangely: a code, what it is
about, and a way out. The run ends by itself, although it was to go on for ever."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.dev import postgres as dev_postgres
from penstock.dev import processes
from penstock.errors import PenstockError, ProjectInvalid
from penstock.runtime.delivery.progress import QueryProgress
from penstock.runtime.run.supervisor import Run
from tests.contract.services import Mortal, MortalClickHouse, MortalPostgres
from tests.contract.subjects import Database
from tests.endpoint import HANG, Says, endpoint
from tests.services import clickhouse
from tests.services.live_runs import done, live
from tests.spark.running import Running

ROWS = [{"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 2}]


@dataclass(frozen=True)
class Pipeline:
    """Rows of a file, which go to one sink, or to others too. Files that come later are waited for."""

    running: Running

    def run(
        self,
        sink: dict[str, Any],
        rows: list[dict[str, Any]],
        sql: str = "SELECT * FROM numbers",
        **others: dict[str, Any],
    ) -> QueryProgress:
        self._write(sink, rows, sql, **others)
        return self.running.run()["numbers"]

    def failure(self, sink: dict[str, Any], rows: list[dict[str, Any]] = ROWS) -> PenstockError:
        """What ends a run that was to go on for ever."""
        self._write(sink, rows, "SELECT * FROM numbers")
        with pytest.raises(PenstockError) as caught:
            self.running.run_on()
        assert not isinstance(caught.value, ProjectInvalid), caught.value
        assert any(level.startswith("query `numbers`") for level in caught.value.context)
        return caught.value

    def ids(self, path: str) -> list[int]:
        """What a sink of files has written."""
        files = (self.running.root / path).glob("*-*/part-*.json")
        return sorted(json.loads(line)["id"] for file in files for line in file.read_text().splitlines())

    def _write(self, sink: dict[str, Any], rows: list[dict[str, Any]], sql: str, **others: dict[str, Any]) -> None:
        source = {"type": "file", "path": "in", "format": "json"}
        transform = {"type": "sql", "primary_key": "id", "sql": sql}
        document = {
            "sources": {"numbers": source},
            "transforms": {"sound": transform},
            "sinks": {"kept": {"from": "sound", **sink}, **others},
        }
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        self.running.write({"in/1.json": lines, "pipeline.yml": json.dumps(document)})


@pytest.fixture
def pipeline(tmp_path: Path, spark: SparkSession) -> Pipeline:
    return Pipeline(Running(tmp_path, spark, "pipeline.yml"))


@contextmanager
def postgres(service: Callable[[type[Mortal]], Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    found = Database(service(MortalPostgres), f"b{uuid.uuid4().hex[:8]}")
    login = {"PORT": found.service.port, "USER": dev_postgres.USER, "PASS": dev_postgres.PASSWORD}
    for name, value in login.items():
        monkeypatch.setenv(f"PENSTOCK__POSTGRES_SINK__{name}", str(value))
    found.ask(f"CREATE SCHEMA {found.schema}")
    yield found
    found.ask(f"DROP SCHEMA {found.schema} CASCADE")


@pytest.fixture
def db(service: Callable[[type[Mortal]], Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    with postgres(service, monkeypatch) as found:
        yield found


@pytest.fixture
def engine(service: Callable[[type[Mortal]], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    found: MortalClickHouse = service(MortalClickHouse)
    name = f"b_{uuid.uuid4().hex[:12]}"
    clickhouse.client(found.url).command(f"CREATE DATABASE {name}")
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SINK__URL", found.url)
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SINK__DATABASE", name)
    return clickhouse.client(found.url, database=name)


# PostgreSQL


@pytest.mark.parametrize(
    ("table", "code", "said", "hint"),
    [
        ("id BIGINT PRIMARY KEY, name TEXT", "table-mismatch", "has no column `n`", 'ADD COLUMN "n" bigint'),
        ("id BIGINT PRIMARY KEY, name TEXT, n SMALLINT", "table-mismatch", "column `n`", "TYPE bigint"),
        ("id BIGINT, name TEXT, n BIGINT", "table-mismatch", "no unique index", "ADD PRIMARY KEY"),
    ],
)
def test_a_table_of_postgres_that_does_not_fit(
    table: str, code: str, said: str, hint: str, pipeline: Pipeline, db: Database
) -> None:
    db.ask(f"CREATE TABLE {db.schema}.t ({table})")
    error = pipeline.failure({"type": "postgres", "schema": db.schema, "table": "t"})
    assert (error.code, error.exit_code) == (code, 4)
    assert said in error.message
    assert hint in (error.hint or "")
    assert db.rows("t") == []


def test_a_wrong_password_for_postgres(pipeline: Pipeline, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__PASS", "wrong-word")
    error = pipeline.failure({"type": "postgres", "schema": db.schema, "table": "t"})
    assert (error.code, error.exit_code) == ("database-refused", 4)
    assert "password authentication failed" in error.message
    assert "PENSTOCK__POSTGRES_SINK__USER" in (error.hint or "")
    assert "wrong-word" not in str(error)


def test_rows_of_postgres_without_a_key_are_kept_and_the_last_of_a_key_counts(pipeline: Pipeline, db: Database) -> None:
    rows = [*ROWS, {"id": None, "name": "nobody", "n": 3}, {"id": 1, "name": "last", "n": 4}]
    done = pipeline.run({"type": "postgres", "schema": db.schema, "table": "t"}, rows)
    assert (done.rejected, done.kept_in) == (1, ("kept.errors",))
    found = sorted((row["id"], row["name"]) for row in db.rows("t"))
    assert found == [(1, "last"), (2, "b")]
    (dead_letter,) = pipeline.running.topic("kept.errors")
    assert "null value in column" in dead_letter["message"]
    assert json.loads(dead_letter["value"])["name"] == "nobody"


@pytest.mark.parametrize("more", ["", " UNION ALL SELECT * FROM numbers WHERE id < 0"])
def test_rows_that_postgres_refuses_only_together_are_told_apart(more: str, pipeline: Pipeline, db: Database) -> None:
    """As if they had come one by one: the later one of two is the one that is refused. Other sinks get both."""
    db.ask(f"CREATE TABLE {db.schema}.t (id BIGINT PRIMARY KEY, name TEXT UNIQUE, n BIGINT)")
    rows = [{"id": i, "name": "twin" if i in (3, 7, 8) else f"n{i}", "n": i} for i in range(10)]
    beside = {"type": "file", "from": "numbers", "path": "out", "format": "json"}
    sink, sql = {"type": "postgres", "schema": db.schema, "table": "t"}, f"SELECT * FROM numbers{more}"
    done = pipeline.run(sink, rows, sql, beside=beside)
    assert (done.rejected, done.rows_out) == (2, 8 + 10)
    assert sorted(row["id"] for row in db.rows("t")) == [0, 1, 2, 3, 4, 5, 6, 9]
    assert pipeline.ids("out") == [*range(10)]
    dead_letters = pipeline.running.topic("kept.errors")
    assert sorted(json.loads(dead_letter["value"])["id"] for dead_letter in dead_letters) == [7, 8]
    assert "duplicate key value violates unique constraint" in dead_letters[0]["message"]


ODD = [{"id": 1, "order": 'a"b', "it's": "x"}]


def test_names_of_postgres_may_be_words_of_sql_and_have_quotes(pipeline: Pipeline, db: Database) -> None:
    sink = {"type": "postgres", "schema": db.schema, "table": 'select "from" %s'}
    sql = 'SELECT id, "order" AS "group", "it\'s" AS "a ""b"" c" FROM numbers'
    pipeline.run(sink, ODD, sql)
    ((text,),) = db.ask(f'SELECT to_json(t)::text FROM {db.schema}."select ""from"" %s" AS t')
    assert json.loads(text) == {"id": 1, "group": 'a"b', 'a "b" c': "x"}


# ClickHouse


@pytest.mark.parametrize(
    ("table", "said", "hint"),
    [
        (None, "there is no table `t`", "leave out `create: false`"),
        ("id Int64, name String", "has no column `n`", "ADD COLUMN `n` Nullable(Int64)"),
        ("id Int64, name String, n String", "column `n` of table `t` is String", "cast it in the SQL"),
    ],
)
def test_a_table_of_clickhouse_that_does_not_fit(
    table: str | None, said: str, hint: str, pipeline: Pipeline, engine: Any
) -> None:
    if table is not None:
        engine.command(f"CREATE TABLE t ({table}) ENGINE = MergeTree ORDER BY id")
    sink = {"type": "clickhouse", "table": "t", "primary_key": "id", "create": False, "schema_change": "fail"}
    error = pipeline.failure(sink)
    assert (error.code, error.exit_code) == ("table-mismatch", 4)
    assert said in error.message
    assert hint in (error.hint or "")


def test_a_wrong_password_for_clickhouse(pipeline: Pipeline, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SINK__PASSWORD", "wrong-word")
    error = pipeline.failure({"type": "clickhouse", "table": "t", "primary_key": "id"})
    assert (error.code, error.exit_code) == ("clickhouse-refused", 4)
    assert "PENSTOCK__CLICKHOUSE_SINK__USER" in (error.hint or "")
    assert "wrong-word" not in str(error)


def test_rows_of_clickhouse_without_a_key_are_kept_and_the_last_of_a_key_counts(
    pipeline: Pipeline, engine: Any
) -> None:
    rows = [*ROWS, {"id": None, "name": "nobody", "n": 3}, {"id": 1, "name": "last", "n": 4}]
    done = pipeline.run({"type": "clickhouse", "table": "t", "primary_key": "id"}, rows)
    assert (done.rows_out, done.rejected, done.kept_in) == (2, 1, ("kept.errors",))
    assert engine.query("SELECT id, name FROM t FINAL ORDER BY id").result_rows == [(1, "last"), (2, "b")]
    (dead_letter,) = pipeline.running.topic("kept.errors")
    assert (dead_letter["code"], json.loads(dead_letter["value"])["name"]) == ("row-refused", "nobody")
    assert "column `id` of table `t` is Int64: null" in dead_letter["message"]


def test_names_of_clickhouse_may_be_words_of_sql_and_have_quotes(pipeline: Pipeline, engine: Any) -> None:
    sink = {"type": "clickhouse", "table": "select `from` 'x'", "primary_key": "id"}
    sql = 'SELECT id, "order" AS "group", "it\'s" AS "a ""b"" c" FROM numbers'
    pipeline.run(sink, ODD, sql)
    found = engine.query("SELECT * EXCEPT (is_deleted, insert_time) FROM `select \\`from\\` 'x'`")
    assert dict(zip(found.column_names, found.result_rows[0], strict=True)) == {
        "id": 1, "group": 'a"b', 'a "b" c': "x",
    }  # fmt: skip


# HTTP


@pytest.mark.parametrize(
    ("says", "said", "hint"),
    [
        (
            Says(404, b"<html><title>Gone\n fishing</title></html>", {"Content-Type": "text/html"}),
            "answered 404 Not Found: an HTML page, “Gone fishing”",
            "on_error: skip",
        ),
        (Says(302, headers={"Location": "/new"}), "answered 302 Found", "write the new address into `url`"),
    ],
)
def test_a_webhook_that_answers_strangely(says: Says, said: str, hint: str, pipeline: Pipeline) -> None:
    with endpoint() as server:
        server.always = says
        error = pipeline.failure({"type": "webhook", "url": server.url})
    assert (error.code, error.exit_code) == ("http-refused", 4)
    assert said in error.message
    assert hint in (error.hint or "")
    assert len(server.received) == 1


def states(run: Run) -> dict[str, str]:
    return {row.query: row.state for row in run.board.snapshot()}


def with_own_reader(pipeline: Pipeline, url: str) -> None:
    """A pipeline with a file that is there, and a webhook beside the files it writes, which reads for itself."""
    hook = {"type": "webhook", "from": "numbers", "url": url, "isolate": True, "retry_for": "100ms"}
    kept = {"type": "file", "from": "numbers", "path": "out", "format": "json"}
    document = {
        "sources": {"numbers": {"type": "file", "path": "in", "format": "json"}},
        "sinks": {"hook": hook, "kept": kept},
    }
    pipeline.running.write({"in/1.json": '{"id": 1}\n', "pipeline.yml": json.dumps(document)})


def test_a_sink_that_reads_for_itself_fails_alone(pipeline: Pipeline) -> None:
    with endpoint() as server:
        server.always = Says(404)
        with_own_reader(pipeline, server.url)
        with pytest.raises(PenstockError) as caught:
            live(
                pipeline.running,
                lambda run: states(run)["hook"] == "failed",
                done(lambda: pipeline.running.write({"in/2.json": '{"id": 2}\n'})),
                lambda run: pipeline.ids("out") == [1, 2],
            )
    assert caught.value.code == "http-refused"
    assert pipeline.ids("out") == [1, 2]


def test_a_sink_that_reads_for_itself_lags_alone_and_catches_up(pipeline: Pipeline) -> None:
    with endpoint() as server:
        server.always = Says(503)
        with_own_reader(pipeline, server.url)
        live(
            pipeline.running,
            lambda run: states(run)["hook"] == "retrying",
            done(lambda: pipeline.running.write({"in/2.json": '{"id": 2}\n'})),
            lambda run: pipeline.ids("out") == [1, 2],
            lambda run: states(run) == {"hook": "retrying", "numbers": "running"},
            done(lambda: setattr(server, "always", Says())),
            lambda run: sorted(server.ids) == [1, 2],
            lambda run: states(run) == {"hook": "running", "numbers": "running"},
        )
    assert pipeline.ids("out") == [1, 2]


def test_a_source_that_is_down_when_a_run_begins_is_waited_for_if_other_queries_run(
    pipeline: Pipeline, engine: Any, service: Callable[[type[Mortal]], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.command("CREATE TABLE archive (id Int64) ENGINE = MergeTree ORDER BY id")
    engine.command("INSERT INTO archive VALUES (7)")
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__URL", service(MortalClickHouse).url)
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__DATABASE", engine.database)
    archive = {"type": "clickhouse", "table_name": "archive", "primary_key": "id"}
    sources = {"archive": archive, "numbers": {"type": "file", "path": "in", "format": "json"}}
    sinks = {name: {"type": "file", "from": name, "path": f"out_{name}", "format": "json"} for name in sources}
    document = {"sources": sources, "sinks": {f"{name}_kept": sink for name, sink in sinks.items()}}
    pipeline.running.write({"in/1.json": '{"id": 1}\n', "pipeline.yml": json.dumps(document)})
    processes.stop(service(MortalClickHouse).home)
    try:
        live(
            pipeline.running,
            lambda run: states(run) == {"archive": "retrying", "numbers": "running"},
            lambda run: pipeline.ids("out_numbers") == [1],
            done(service(MortalClickHouse).up),
            lambda run: states(run)["archive"] == "finished",
        )
    finally:
        if processes.find(service(MortalClickHouse).home) is None:  # it is that of other tests too
            service(MortalClickHouse).up()
    assert pipeline.ids("out_archive") == [7]


def test_a_source_that_is_down_when_a_run_of_nothing_else_begins_ends_it(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__URL", "http://127.0.0.1:1")
    archive = {"type": "clickhouse", "table_name": "archive", "primary_key": "id"}
    kept = {"type": "blackhole", "from": "archive"}
    pipeline.running.write({"pipeline.yml": json.dumps({"sources": {"archive": archive}, "sinks": {"kept": kept}})})
    with pytest.raises(PenstockError) as caught:
        pipeline.running.run_on()
    assert (caught.value.code, caught.value.exit_code) == ("unreachable", 4)


def test_a_webhook_that_hangs_is_given_up(pipeline: Pipeline) -> None:
    with endpoint() as server:
        server.always = HANG
        with pytest.raises(PenstockError) as caught:
            pipeline.run({"type": "webhook", "url": server.url, "timeout": "200ms", "retry_for": "300ms"}, ROWS)
    assert (caught.value.code, caught.value.retriable) == ("unreachable", True)
    assert "did not answer within 0.2 s" in caught.value.message


# What is known before anything runs


@pytest.mark.parametrize(
    ("sink", "path"),
    [
        ({"type": "postgres", "table": "t", "primary_key": "key"}, "primary_key"),
        ({"type": "postgres", "table": "t", "update_where": {"verzion": ">"}}, "update_where.verzion"),
        ({"type": "clickhouse", "table": "t", "primary_key": "key"}, "primary_key"),
        (
            {"type": "clickhouse", "table": "t", "primary_key": "id", "version_column_name": "verzion"},
            "version_column_name",
        ),
        (
            {"type": "clickhouse", "table": "t", "primary_key": "id", "schema_override": {"nn": "Int8"}},
            "schema_override.nn",
        ),
    ],
)
def test_a_column_that_is_not_there_is_named_with_its_place(sink: dict[str, Any], path: str, tmp_path: Path) -> None:
    from penstock.workflow.stages import check

    running = Running(tmp_path, None, "pipeline.yml")  # type: ignore[arg-type]
    Pipeline(running)._write(sink, ROWS, "SELECT id, name, n FROM numbers")
    with pytest.raises(ProjectInvalid) as caught:
        check(replace(running).root / running.entry)
    (found,) = [d for d in caught.value.diagnostics if d.code == "column-missing" or "primary" in d.code]
    assert found.path == f"sinks.kept.{path}"
    assert found.origin is not None
    assert found.origin.line is not None
