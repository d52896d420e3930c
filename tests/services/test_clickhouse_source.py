"""The source `clickhouse`, on ClickHouse's real engine."""

import json
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.clients.clickhouse.client import ClickHouse
from penstock.clients.clickhouse.paging import paged_table
from penstock.dev import clickhouse as dev_clickhouse
from penstock.dev import processes
from penstock.errors import ProjectInvalid, ServiceError, Severity
from penstock.testing import memory
from penstock.testing.values import VALUES, same, schema_of
from penstock.workflow.stages import Target, check
from tests.process.cli import background, wait_until
from tests.services import clickhouse
from tests.services.live_runs import Step, done, paused, resumed
from tests.spark.running import Running

NUMBERS = "CREATE TABLE numbers (id Int64, n UInt64, big UInt256, at DateTime64(3)) ENGINE = MergeTree ORDER BY id"
FILL = (
    "INSERT INTO numbers SELECT number * 10, number, bitShiftLeft(toUInt256(number), 200), toDateTime64(number, 3) "
    "FROM numbers({}, {})"
)


@dataclass(frozen=True)
class Archive:
    """A database, and a pipeline that reads from it into files."""

    client: Any
    running: Running

    def pipeline(self, **settings: Any) -> "Archive":
        source = json.dumps({"type": "clickhouse", "table_name": "numbers", **settings})
        text = (
            f"sources: {{archive: {source}}}\nsinks: {{kept: {{type: file, from: archive, path: out, format: json}}}}\n"
        )
        self.running.write({"pipeline.yml": text})
        return self

    def run(self) -> Any:
        return self.running.run()["archive"]

    def rows(self) -> list[dict[str, Any]]:
        files = sorted((self.running.root / "out").glob("*-*/part-*.json"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clickhouse")


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    with clickhouse.running(home) as found:
        yield found


@pytest.fixture
def archive(address: str, running: Running, monkeypatch: pytest.MonkeyPatch) -> Archive:
    name = f"d_{uuid.uuid4().hex[:12]}"
    clickhouse.client(address).command(f"CREATE DATABASE {name}")
    monkeypatch.setenv("STREAMLING__CLICKHOUSE_SOURCE__URL", address)
    monkeypatch.setenv("STREAMLING__CLICKHOUSE_SOURCE__DATABASE", name)
    return Archive(clickhouse.client(address, database=name), replace(running, entry="pipeline.yml"))


def test_a_table_is_read_page_by_page_and_the_run_ends(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__PAGE_SIZE", "400")
    archive.client.command(NUMBERS)
    archive.client.command(FILL.format(0, 1000))
    done = archive.pipeline().run()
    assert (done.rows_in, done.rows_out, done.batches, done.part) == (1000, 1000, 3, 1.0)
    assert archive.ids() == list(range(0, 10_000, 10))
    (row,) = (row for row in archive.rows() if row["id"] == 70)
    assert row.pop("at").startswith("1970-01-01T00:00:07")
    assert row == {"id": 70, "n": 7, "big": str(7 * 2**200), "_gs_op": "i"}


def test_what_is_too_much_for_the_server_at_once_is_asked_for_in_parts(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.client.command("CREATE TABLE numbers (id Int64, text String) ENGINE = MergeTree ORDER BY id")
    # far apart, so that one of the ranges that a page is read in has nearly all of them; one key has more than one row
    archive.client.command("INSERT INTO numbers SELECT if(number < 8, 7, number), toString(number) FROM numbers(500)")
    archive.client.command("INSERT INTO numbers VALUES (1000000000, 'last')")
    archive.client.command("SET max_result_rows = 40")  # for all who ask this engine
    try:
        done = archive.pipeline().run()
        assert (done.rows_out, done.batches) == (501, 1)
        assert archive.ids() == [*[7] * 8, *range(8, 500), 1_000_000_000]
        archive.client.command("SET max_result_rows = 3")
        archive.client.command("INSERT INTO numbers SELECT 2000000000, '' FROM numbers(5)")
        with pytest.raises(ServiceError, match="Limit for result exceeded"):
            archive.run()  # one key cannot be divided
    finally:
        archive.client.command("SET max_result_rows = 0")
    assert archive.run().rows_out == 5


def test_a_page_is_about_a_gigabyte_at_most_and_less_where_memory_is_short(archive: Archive) -> None:
    table = "numbers (id Int64, text String) ENGINE = MergeTree ORDER BY id SETTINGS min_bytes_for_wide_part = 0"
    archive.client.command(f"CREATE TABLE {table}")
    archive.client.command("INSERT INTO numbers SELECT number, repeat('x', 1000000) FROM numbers(10)")
    place = urlsplit(archive.client.url)
    server = ClickHouse(f"http://{place.netloc}", database=archive.client.database)
    assert 1070 <= paged_table(server, "numbers", (), None, 10_000_000).page_size <= 1074
    assert paged_table(server, "numbers", ("id",), None, 10_000_000).page_size == 10_000_000
    assert paged_table(server, "numbers", (), None, 10).page_size == 10
    arrow = pa.schema([("id", pa.int64()), ("text", pa.string()), ("_gs_op", pa.string())])
    archive.client.command("SET max_memory_usage = 30000000")  # less than all rows take
    try:
        answers = list(paged_table(server, "numbers", (), None, 10).batches(0, 10, arrow))
    finally:
        archive.client.command("SET max_memory_usage = 0")
    assert [row["id"] for batch in answers for row in batch.to_pylist()] == list(range(10))
    assert len(answers) > 1


def test_a_second_run_goes_on_behind_the_last_key(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    archive.client.command(FILL.format(0, 100))
    assert archive.pipeline().run().rows_out == 100
    assert archive.run().rows_out == 0
    archive.client.command(FILL.format(100, 50))
    assert archive.run().rows_out == 50
    assert archive.ids() == list(range(0, 1500, 10))


def test_an_interrupted_batch_is_read_again(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    archive.client.command(FILL.format(0, 100))
    archive.pipeline().run()
    archive.running.uncommit("archive", 0)
    archive.run()
    assert archive.ids() == list(range(0, 1000, 10))


def test_columns_a_filter_and_a_first_key(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    archive.client.command(FILL.format(0, 100))
    archive.pipeline(columns="id, n", filter="n % 2 = 0", start_at=500).run()
    assert archive.rows()[0].keys() == {"id", "n", "_gs_op"}
    assert archive.ids() == list(range(500, 1000, 20))


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("d >= '2024-01-01 00:00:00'", [1, 2]),
        ("toDate(d) = '2024-01-01' AND toHour(d) = 0", [1]),
        ("wide > 100", [2]),
        ("wide > toUInt256('100')", [2]),
        ("bitAnd(big, 1) = 1", [1]),
        ("u = toUUID('00000000-0000-0000-0000-000000000002')", [2]),
        ("thrice = 6", [2]),
    ],
)
def test_a_filter_is_asked_of_what_the_table_has(archive: Archive, condition: str, ids: list[int]) -> None:
    columns = "id Int64, d DateTime('Europe/Berlin'), wide UInt256, big UInt64, u UUID, thrice Int64 ALIAS id * 3"
    archive.client.command(f"CREATE TABLE numbers ({columns}) ENGINE = MergeTree ORDER BY id")
    archive.client.command(
        "INSERT INTO numbers VALUES (1, '2024-01-01 00:30:00', 9, 3, '00000000-0000-0000-0000-000000000001'), "
        "(2, '2024-01-02 12:00:00', 1000, 2, '00000000-0000-0000-0000-000000000002')"
    )
    archive.pipeline(filter=condition).run()
    assert archive.ids() == ids


def test_the_newest_version_counts_and_what_is_gone_is_a_delete(archive: Archive, capsys: Any) -> None:
    archive.client.command(
        "CREATE TABLE numbers (id Int64, name String, v UInt64, gone UInt8) "
        "ENGINE = ReplacingMergeTree(v, gone) ORDER BY id"
    )
    archive.client.command("SYSTEM STOP MERGES numbers")
    for rows in ("(1, 'a', 1, 0), (2, 'b', 5, 0), (3, 'c', 1, 0)", "(1, 'z', 2, 1), (2, 'old', 4, 0)"):
        archive.client.command(f"INSERT INTO numbers VALUES {rows}")
    archive.running.write(
        {
            "pipeline.yml": """
            sources: {archive: {type: clickhouse, table_name: numbers, columns: "id, name"}}
            sinks: {shown: {type: print, from: archive}}
            """
        }
    )
    archive.run()
    lines = sorted(line for line in capsys.readouterr().out.splitlines() if line.startswith(("INSERT", "DELETE")))
    assert lines == ['DELETE {"id":1,"name":"z"}', 'INSERT {"id":2,"name":"b"}', 'INSERT {"id":3,"name":"c"}']
    assert [row["name"] for row in archive.running.show("source.archive")] == ["z", "b", "c"]


def test_a_table_without_rows_is_no_mistake(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    assert archive.pipeline().run().rows_out == 0
    archive.client.command(FILL.format(0, 5))
    assert archive.run().rows_out == 5


def test_rows_below_zero_that_come_to_an_empty_table_are_read(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    archive.pipeline().run()
    archive.client.command("INSERT INTO numbers (id) VALUES (-5), (5)")
    archive.run()
    assert archive.ids() == [-5, 5]


@pytest.mark.parametrize("kind", ["UInt64", "Int64", "UInt256", "Int8"])
def test_keys_at_the_ends_of_their_type_are_read_once(
    kind: str, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__PAGE_SIZE", "2")
    bits = int(kind.lstrip("UInt"))
    low = 0 if kind.startswith("U") else -(2 ** (bits - 1))
    keys = [low, low + 1, low + 2, low + 2**bits - 3, low + 2**bits - 2, low + 2**bits - 1]
    archive.client.command(f"CREATE TABLE numbers (id {kind}) ENGINE = MergeTree ORDER BY id")
    archive.client.command(f"INSERT INTO numbers VALUES {', '.join(f'({key})' for key in keys)}")
    archive.pipeline(start_at=low - 1).run()
    assert sorted(int(row["id"]) for row in archive.rows()) == keys


KINDS = {
    "BOOLEAN": "Bool",
    "TINYINT": "Int8",
    "SMALLINT": "Int16",
    "INT": "Int32",
    "BIGINT": "Int64",
    "FLOAT": "Float32",
    "DOUBLE": "Float64",
    "STRING": "String",
    "BINARY": "String",
    "DATE": "Date32",
    "TIMESTAMP": "DateTime64(6)",
    "ARRAY<INT>": "Array(Nullable(Int32))",
    "MAP<STRING, BIGINT>": "Map(String, Nullable(Int64))",
    "STRUCT<a: INT, b: STRING>": "Tuple(a Nullable(Int32), b Nullable(String))",
}


def test_values_of_every_type_come_out_as_they_went_in(archive: Archive) -> None:
    """ClickHouse's own client has put them there. Bytes are text for us, which SQL makes bytes of again."""
    kinds = {value.name: KINDS.get(value.type, value.type) for value in VALUES}
    columns = [f"`{v.name}` {f'Nullable({kinds[v.name]})' if v.is_plain else kinds[v.name]}" for v in VALUES]
    archive.client.command(f"CREATE TABLE numbers (id Int64, {', '.join(columns)}) ENGINE = MergeTree ORDER BY id")
    whole = {v.name: list(v.value.items()) if v.type.startswith("MAP") else v.value for v in VALUES}
    schema = to_arrow_schema(StructType.fromDDL(schema_of(VALUES)), timezone="UTC")
    archive.client.insert_arrow("numbers", pa.Table.from_pylist([{"id": 1, **whole}, {"id": 2}], schema=schema))
    sql = "SELECT * EXCEPT (raw), CAST(raw AS BINARY) AS raw FROM archive"
    archive.running.write(
        {
            "pipeline.yml": f"""
            sources: {{archive: {{type: clickhouse, table_name: numbers, primary_key: id}}}}
            transforms: {{sound: {{type: sql, primary_key: id, sql: "{sql}"}}}}
            sinks: {{kept: {{type: memory, from: sound}}}}
            """
        }
    )
    memory.forget()
    archive.run()
    first, second = sorted(memory.kept_rows("kept"), key=lambda row: row["id"])
    first["moment"] = first["moment"].astimezone(UTC)  # Spark hands times to Python as those of the machine
    assert [value.name for value in VALUES if not same(value.value, first[value.name])] == []
    nothing = {"list": [], "pairs": {}, "record": {"a": None, "b": None}}
    assert {value.name: second[value.name] for value in VALUES} == {**dict.fromkeys(whole), **nothing}


def test_what_the_table_computes_can_be_asked_for(archive: Archive) -> None:
    archive.client.command(
        "CREATE TABLE numbers (id Int64, twice Int64 MATERIALIZED id * 2, thrice Int64 ALIAS id * 3) "
        "ENGINE = ReplacingMergeTree ORDER BY id"
    )
    archive.client.command("INSERT INTO numbers VALUES (1), (2)")
    archive.pipeline().run()
    assert archive.rows()[0].keys() == {"id", "_gs_op"}
    archive.pipeline(columns=["id", "twice", "thrice"], filter="thrice > 3")
    assert archive.running.show("source.archive") == [{"id": 2, "twice": 4, "thrice": 6, "_gs_op": "i"}]


def test_a_row_that_the_sql_fails_over_is_found_from_the_first_key_on(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    archive.client.command(FILL.format(0, 10))
    archive.running.write(
        {
            "pipeline.yml": """
            sources: {archive: {type: clickhouse, table_name: numbers, start_at: 50}}
            transforms: {part: {type: sql, primary_key: id, sql: "SELECT id, 100 / (n - 7) AS part FROM archive"}}
            sinks: {kept: {type: file, from: part, path: out, format: json}}
            """
        }
    )
    done = archive.run()
    assert archive.ids() == [50, 60, 80, 90]
    assert done.rejected == 1


@pytest.mark.parametrize(
    ("table", "settings", "said", "hint"),
    [
        ("other (id Int64) ENGINE = MergeTree ORDER BY id", {}, "there is no table `numbers`", "DATABASE"),
        ("numbers (id String) ENGINE = MergeTree ORDER BY id", {}, "not sorted by a column of whole numbers", "`id`"),
        ("numbers (id Int64) ENGINE = Memory", {}, "not sorted by a column of whole numbers", "no sorting key"),
        (
            "numbers (id Int64) ENGINE = MergeTree ORDER BY id",
            {"columns": "id, amuont"},
            "has no column `amuont`",
            "there are: id",
        ),
        (
            "numbers (id Int64) ENGINE = MergeTree ORDER BY id",
            {"filter": "amount >"},
            "cannot be read like this: .*Syntax error",
            "see `filter`",
        ),
    ],
)
def test_a_table_that_cannot_be_read(
    table: str, settings: dict[str, Any], said: str, hint: str, archive: Archive
) -> None:
    archive.client.command(f"CREATE TABLE {table}")
    with pytest.raises(ServiceError, match=said) as caught:
        archive.pipeline(**settings).run()
    assert caught.value.code == "table-mismatch"
    assert hint in (caught.value.hint or "")


def test_a_wrong_password_is_told_at_once(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__PASSWORD", "wrong-word")
    with pytest.raises(ServiceError) as caught:
        archive.pipeline().run()
    assert (caught.value.code, caught.value.retriable) == ("clickhouse-refused", False)
    assert "PENSTOCK__CLICKHOUSE_SOURCE__USER" in (caught.value.hint or "")
    assert "wrong-word" not in str(caught.value)


# Crashes and faults


def test_a_run_that_is_killed_goes_on_behind_its_last_page(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__PAGE_SIZE", "100")
    archive.client.command(NUMBERS)
    archive.client.command(FILL.format(0, 1500))
    root = archive.pipeline().running.root
    with background("run", "pipeline.yml", cwd=root) as runner:
        wait_until(lambda: len(list((root / "out").glob("*-*"))) > 2, "the first pages")
        runner.send_signal(signal.SIGKILL)
        runner.wait()
    assert 0 < len(archive.ids()) < 1500
    archive.running.run()
    assert archive.ids() == list(range(0, 15_000, 10))
    files = sorted((root / "out").iterdir())
    archive.running.run()
    assert sorted((root / "out").iterdir()) == files


@pytest.mark.parametrize("fault", ["stands still", "is started again"])
def test_a_server_that_is_away_amid_pages_is_waited_for(
    fault: str, archive: Archive, home: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, back = {
        "stands still": (paused(home), resumed(home)),
        "is started again": (
            done(lambda: processes.stop(home)),
            done(lambda: dev_clickhouse.up(home, urlsplit(address).port)),
        ),
    }[fault]
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__PAGE_SIZE", "20")
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SOURCE__QUERY_TIMEOUT_SEC", "2")
    archive.client.command(NUMBERS)
    archive.client.command(FILL.format(0, 600))
    story: list[Step] = [
        lambda run: run.board.batch_count("archive") > 1,
        away,
        lambda run: run.board.snapshot()[0].state == "retrying",
        back,
    ]
    run = archive.pipeline().running.begun()

    def look() -> None:
        time.sleep(0.05)
        if story and story[0](run):
            story.pop(0)

    try:
        run.run_until_stopped(look)
    finally:
        run.close()
        if away not in story and back in story:  # the server is that of other tests too
            back(run)
    assert story == []
    assert archive.ids() == list(range(0, 6000, 10))


# Keys


def test_the_sorting_key_is_the_primary_key_where_none_is_declared(archive: Archive) -> None:
    columns = "id Int64, part UInt8, big UInt256, at DateTime64(3)"
    archive.client.command(f"CREATE TABLE numbers ({columns}) ENGINE = ReplacingMergeTree ORDER BY (id, part)")
    asking = Target(archive.pipeline().running.root / "pipeline.yml", ask_read=True)
    checked = check(asking)
    assert checked.notes == ()
    assert checked.graph["sink.kept"].key == ("id", "part")
    kinds = {column.name: column.type for column in checked.graph["source.archive"].columns or ()}
    assert kinds == {"id": "BIGINT", "part": "SMALLINT", "big": "UINT256", "at": "TIMESTAMP", "_gs_op": "STRING"}
    assert check(replace(asking, ask_read=False)).graph["sink.kept"].key == ("id", "part")
    archive.pipeline(primary_key="part")
    assert check(asking).graph["sink.kept"].key == ("part",)


@pytest.mark.parametrize(
    ("sorted_by", "settings"), [("(id, n % 7)", {}), ("(id, n)", {"columns": "id, at"})], ids=["computed", "not read"]
)
def test_a_sorting_key_that_rows_do_not_have_is_no_key(
    sorted_by: str, settings: dict[str, Any], archive: Archive
) -> None:
    archive.client.command(NUMBERS.replace("ORDER BY id", f"ORDER BY {sorted_by}"))
    checked = check(Target(archive.pipeline(**settings).running.root / "pipeline.yml", ask_read=True))
    assert checked.graph["sink.kept"].key == ()


def test_a_sorting_key_that_several_rows_may_have_is_pointed_out(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    wanted = Target(archive.pipeline().running.root / "pipeline.yml", ask_read=True)
    (found,) = check(wanted).notes
    assert (found.code, found.path, found.severity) == ("primary-key-assumed", "sources.archive", Severity.WARNING)
    archive.pipeline(primary_key="id")
    assert check(wanted).notes == ()


def test_columns_that_were_asked_for_are_asked_for_again(archive: Archive) -> None:
    archive.client.command(NUMBERS)
    text = """
    sources: {archive: {type: clickhouse, table_name: numbers, primary_key: id}}
    transforms: {some: {type: sql, primary_key: id, sql: "SELECT id, later FROM archive"}}
    sinks: {kept: {type: file, from: some, path: out, format: json}}
    """
    archive.running.write({"pipeline.yml": text})
    wanted = Target(archive.running.root / "pipeline.yml", ask_read=True)
    assert check(replace(wanted, ask_read=False)).notes == ()  # nobody was asked
    with pytest.raises(ProjectInvalid):
        check(wanted)
    archive.client.command("ALTER TABLE numbers ADD COLUMN later Int64")
    assert check(wanted).notes == ()


@pytest.mark.parametrize("second", ["N", "_error", "_GS_OP"])
def test_a_column_that_cannot_be_told_from_others_is_refused_and_can_be_left_out(archive: Archive, second: str) -> None:
    archive.client.command(f"CREATE TABLE numbers (id Int64, n Int64, {second} Int64) ENGINE = MergeTree ORDER BY id")
    archive.client.command("INSERT INTO numbers VALUES (1, 2, 3)")
    with pytest.raises(ServiceError) as refused:
        archive.pipeline().run()
    assert (refused.value.code, refused.value.node) == ("column-names", "archive")
    assert f"`{second}`" in refused.value.message
    assert refused.value.hint == "leave it out: `columns` names those that are read"
    archive.pipeline(columns="id, n").run()
    assert archive.rows() == [{"id": 1, "n": 2, "_gs_op": "i"}]
