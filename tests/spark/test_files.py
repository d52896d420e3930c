"""Files as they come: whole or broken, alike or not, under whatever names."""

import csv
import gzip
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from penstock.clients.dead_letters.model import read_from_directories
from penstock.errors import PenstockError, ServiceError
from penstock.testing import memory
from tests.spark.running import Running

ONE_SINK = "transforms: {}\nsinks:\n  kept: {type: memory, from: rows}\n"


@pytest.fixture
def pipeline(running: Running) -> Running:
    memory.forget()
    return Running(running.root, running.spark, "pipeline.yml")


def reading(path: str, file_format: str, rest: str = ONE_SINK, **more: str) -> dict[str, str]:
    fields = "".join(f", {name}: {value}" for name, value in {"mode": "{type: bounded}", **more}.items())
    return {"pipeline.yml": f"sources:\n  rows: {{type: file, path: {path!r}, format: {file_format}{fields}}}\n{rest}"}


def table(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


def ids() -> list[int]:
    return sorted(row["id"] for row in memory.kept_rows("kept"))


def dead_letters(pipeline: Running) -> list[dict[str, Any]]:
    topics = pipeline.root / ".penstock" / "topics"
    return [dict(dead_letter.about) for dead_letter in read_from_directories(topics, ["rows.errors"])]


def test_texts_are_written_to_csv_with_the_white_space_that_they_have(pipeline: Running) -> None:
    rest = "transforms: {}\nsinks: {kept: {type: file, from: rows, path: out, format: csv}}\n"
    texts = [" both ", "\tof them", "a, b", 'said "no"', "two\nlines", "plain"]
    lines = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(texts))
    pipeline.write({**reading("in", "json", rest), "in/a.json": lines}).run()
    files = (pipeline.root / "out").glob("*/part-*.csv")
    rows = [row for file in files for row in csv.DictReader(StringIO(file.read_text(), newline=""))]
    assert [row["text"] for row in sorted(rows, key=lambda row: int(row["id"]))] == texts


def test_lines_that_are_no_rows_are_kept_with_their_file(pipeline: Running) -> None:
    lines = '{"id": 1, "n": 5}\n{"id": 2, "n"\n{"id": 3, "n": 6}\nnope\n'
    pipeline.write({**reading("in", "json"), "in/a b.json": lines}).run()
    assert ids() == [1, 3]
    found = sorted((x["value"], x["code"], Path(x["topic"]).name) for x in dead_letters(pipeline))
    assert found == [("nope", "not-json", "a b.json"), ('{"id": 2, "n"', "not-json", "a b.json")]


def test_a_file_that_came_after_the_start_has_to_fit_the_types_of_the_others(pipeline: Running) -> None:
    continuous = "{type: continuous, poll_interval: 50ms}"
    pipeline.write({**reading("in", "csv", mode=continuous), "in/a.csv": "id,n\n1,5\n2,6\n"})

    def stop() -> bool:
        seen = ids()
        if seen == [1, 2]:
            pipeline.write({"b.csv": "id,n\n3,many\n4\n5,7\n"})
            (pipeline.root / "b.csv").rename(pipeline.root / "in" / "b.csv")
        return len(dead_letters(pipeline)) > 1

    pipeline.run_on(stop)
    assert ids() == [1, 2, 5]
    found = sorted((x["value"], x["code"], x["message"]) for x in dead_letters(pipeline))
    assert found == [
        ("3,many", "field-mismatch", "`n`: `many` is not a INT"),
        ("4", "not-csv", "its line does not have the columns of the file"),
    ]


def test_a_batch_that_is_done_again_has_the_types_that_it_had(pipeline: Running) -> None:
    test_a_file_that_came_after_the_start_has_to_fit_the_types_of_the_others(pipeline)
    shutil.rmtree(pipeline.root / ".penstock" / "topics" / "rows.errors")
    pipeline.uncommit("rows", 1)
    pipeline.run()
    assert sorted(x["value"] for x in dead_letters(pipeline)) == ["3,many", "4"]
    pipeline.write({"in/c.csv": "id,n\n6,some\n"}).run()
    assert ids() == [1, 2, 5, 6]


def test_sinks_that_share_a_read_get_what_they_want_and_all_is_counted(pipeline: Running) -> None:
    rest = (
        "transforms:\n"
        "  few: {type: sql, primary_key: id, sql: SELECT id FROM rows WHERE id < 3}\n"
        "  odd: {type: sql, primary_key: id, sql: SELECT r.id FROM rows AS r WHERE r.n = 'x' OR r.id = 2}\n"
        "sinks:\n  kept: {type: memory, from: few}\n  others: {type: memory, from: odd}\n"
    )
    lines = "".join(f'{{"id": {n}, "n": {json.dumps("x" if n == 7 else None)}}}\n' for n in range(10))
    progress = pipeline.write({**reading("in", "json", rest), "in/a.json": f"{lines}nope\n"}).run()["rows"]
    assert ids() == [0, 1, 2]
    assert sorted(row["id"] for row in memory.kept_rows("others")) == [2, 7]
    assert (progress.rows_in, progress.rows_out, progress.rejected) == (11, 5, 1)
    assert [dead_letter["value"] for dead_letter in dead_letters(pipeline)] == ["nope"]


def test_a_line_that_is_to_stop_the_query_does_and_its_file_is_named(pipeline: Running) -> None:
    pipeline.write({**reading("in", "csv", on_error="stop"), "in/odd.csv": "id,n\n1,2\n2,3,4\n"})
    with pytest.raises(PenstockError) as caught:
        pipeline.run()
    assert caught.value.code == "not-csv"
    assert (
        "a record of `rows` cannot be read: its line does not have the columns of the file, in" in caught.value.message
    )
    assert "in/odd.csv" in caught.value.message
    assert dead_letters(pipeline) == []


def test_a_query_that_asks_for_no_column_still_tells_lines_apart(pipeline: Running) -> None:
    rest = (
        "transforms:\n  one: {type: sql, primary_key: id, sql: SELECT 1 AS id FROM rows}\n"
        "sinks:\n  kept: {type: memory, from: one}\n"
    )
    pipeline.write({**reading("in", "json", rest), "in/a.json": '{"id": 7}\nbroken\n{"id": 8}\n'}).run()
    assert ids() == [1, 1]
    assert len(dead_letters(pipeline)) == 1


@pytest.mark.parametrize("file_format", ["parquet", "json", "csv", "avro"])
def test_a_broken_file_is_left_out_as_a_whole_and_named(pipeline: Running, file_format: str) -> None:
    folder = pipeline.root / "in"
    match file_format:
        case "parquet":
            table(folder / "good.parquet", id=[1, 2])
            table(folder / "bad.parquet", id=[3])
            whole = (folder / "bad.parquet").read_bytes()
            (folder / "bad.parquet").write_bytes(whole[:-5])
        case "json":
            pipeline.write({"in/good.json": '{"id": 1}\n{"id": 2}\n'})
            packed = gzip.compress("".join(f'{{"id": {n}, "x": "{n * 7919}"}}\n' for n in range(9000)).encode())
            (folder / "bad.json.gz").write_bytes(packed[: len(packed) // 2])
        case "csv":
            pipeline.write({"in/a_good.csv": "id\n1\n2\n", "in/bad.csv": "other,columns\n1,2\n"})
        case _:
            good = pipeline.spark.sql("SELECT id FROM VALUES (1), (2) AS t(id)").coalesce(1)
            good.write.format("avro").save(str(folder / "good"))
            (folder / "bad.avro").write_bytes(b"Obj\x01 and no more")
    rest = "transforms: {}\nsinks:\n  kept: {type: memory, from: rows}\n  rest: {type: blackhole, from: rows}\n"
    pipeline.write(reading("in", file_format, rest))
    progress = pipeline.run()["rows"]
    assert ids() == [1, 2]
    (dead_letter,) = dead_letters(pipeline)
    assert (dead_letter["code"], Path(dead_letter["topic"]).name.split(".")[0]) == ("file-unreadable", "bad")
    assert dead_letter["message"]
    assert (progress.rows_in, progress.rejected) == (2, 1)
    assert pipeline.run()["rows"].rows_in == 0


def test_a_broken_file_that_is_to_stop_the_query_does(pipeline: Running) -> None:
    table(pipeline.root / "in" / "good.parquet", id=[1])
    pipeline.write({**reading("in", "parquet", on_error="stop"), "in/bad.parquet": "PAR1 and no more"})
    with pytest.raises(PenstockError) as caught:
        pipeline.run()
    assert caught.value.code == "file-unreadable"
    assert "bad.parquet cannot be read" in caught.value.message
    assert "not a Parquet file" in caught.value.message
    assert ids() == []


def test_a_file_that_is_gone_when_its_batch_is_done_again_is_named(pipeline: Running) -> None:
    pipeline.write({**reading("in", "json"), "in/a.json": '{"id": 1}\n', "in/b.json": '{"id": 2}\n'}).run()
    memory.forget()
    pipeline.uncommit("rows", 0)
    (pipeline.root / "in" / "b.json").unlink()
    pipeline.run()
    assert ids() == [1]
    (dead_letter,) = dead_letters(pipeline)
    assert Path(dead_letter["topic"]).name == "b.json"


def test_columns_and_types_are_those_of_all_files(pipeline: Running) -> None:
    folder = pipeline.root / "in"
    table(folder / "1.parquet", id=pyarrow.array([1], pyarrow.int32()), rate=pyarrow.array([0.5], pyarrow.float32()))
    table(folder / "2.parquet", id=[2**40], rate=[0.25], note=["new"])
    table(folder / "3.parquet", id=pyarrow.array([3], pyarrow.int16()))
    pipeline.write(reading("in", "parquet")).run()
    rows = {row["id"]: (row["rate"], row["note"]) for row in memory.kept_rows("kept")}
    assert rows == {1: (0.5, None), 2**40: (0.25, "new"), 3: (None, None)}


def test_avro_files_may_have_more_columns_and_wider_ones(pipeline: Running) -> None:
    spark, folder = pipeline.spark, pipeline.root / "in"
    spark.sql("SELECT 1 AS id, 'x' AS note").write.format("avro").save(str(folder / "one"))
    spark.sql("SELECT 2L AS id, 1.5D AS rate").write.format("avro").save(str(folder / "two"))
    pipeline.write(reading("in", "avro")).run()
    rows = {row["id"]: (row["note"], row["rate"]) for row in memory.kept_rows("kept")}
    assert rows == {1: ("x", None), 2: (None, 1.5)}


def test_types_that_cannot_be_one_are_refused(pipeline: Running) -> None:
    table(pipeline.root / "in" / "1.parquet", id=[1])
    table(pipeline.root / "in" / "2.parquet", id=["one"])
    pipeline.write(reading("in", "parquet"))
    with pytest.raises(ServiceError, match="`id` is bigint in some files and string in others") as caught:
        pipeline.run()
    assert caught.value.code == "schema-unknown"


def test_a_column_that_comes_later_is_read_from_the_next_start_on(pipeline: Running) -> None:
    table(pipeline.root / "in" / "1.parquet", id=[1])
    pipeline.write(reading("in", "parquet")).run()
    table(pipeline.root / "in" / "2.parquet", id=[2], note=["new"])
    pipeline.run()
    assert [(row["id"], row.get("note")) for row in memory.kept_rows("kept")] == [(1, None), (2, "new")]


def test_directories_that_name_a_column_and_its_value_are_columns(pipeline: Running) -> None:
    pipeline.write(
        {
            **reading("in", "json"),
            "in/day=2026-01-01/place=a%2Fb ü/a.json": '{"id": 1}\n',
            "in/day=2026-01-02/place=__HIVE_DEFAULT_PARTITION__/a.json": '{"id": 2}\n',
        }
    ).run()
    rows = {row["id"]: (str(row["day"]), row["place"]) for row in memory.kept_rows("kept")}
    assert rows == {1: ("2026-01-01", "a/b ü"), 2: ("2026-01-02", None)}
    pipeline.write({"in/loose.json": '{"id": 3}\n'})
    with pytest.raises(ServiceError, match=r"`loose\.json` does not"):
        pipeline.run()


@pytest.mark.parametrize("name", ["with space", "ümlaut €", "50% off", "a%20b", "st*r[1]{x}?", "a+b#c&d;e"])
def test_names_of_directories_and_files_are_taken_as_they_are(pipeline: Running, name: str) -> None:
    pipeline.write({**reading(name, "json"), f"{name}/{name}.json": '{"id": 1}\nbroken\n'})
    pipeline.write({"other.json": '{"id": 2}\n'})
    pipeline.run()
    assert ids() == [1]
    (dead_letter,) = dead_letters(pipeline)
    assert dead_letter["topic"].endswith(f"/{name}/{name}.json")


def test_a_single_file_is_read_whatever_its_name_and_files_that_are_being_written_are_not(pipeline: Running) -> None:
    names = ["_temporary/0/a.csv", ".a.csv", "_a.csv", "a.csv.tmp", "a.csv._COPYING_", "a.csv.crc", "A.CSV"]
    pipeline.write({**dict.fromkeys((f"in/{name}" for name in names), "id\n9\n"), "in/a.csv": "id\n1\n"})
    pipeline.write(reading("in", "csv")).run()
    assert ids() == [1]
    other = Running(pipeline.root, pipeline.spark, "other.yml")
    memory.forget()
    other.write({"other.yml": reading("in/a.csv.tmp", "csv")["pipeline.yml"]}).run()
    assert ids() == [9]


def test_old_files_that_come_late_are_read_and_rewritten_ones_are_not_read_again(pipeline: Running) -> None:
    pipeline.write({**reading("in", "json"), "in/a.json": '{"id": 1}\n'}).run()
    pipeline.write({"in/old.json": '{"id": 2}\n', "in/a.json": '{"id": 1}\n{"id": 3}\n'})
    os.utime(pipeline.root / "in" / "old.json", (915148800, 915148800))
    assert pipeline.run()["rows"].rows_in == 1
    assert ids() == [1, 2]
    (pipeline.root / "in" / "old.json").unlink()
    assert pipeline.run()["rows"].rows_in == 0
    assert ids() == [1, 2]


def test_files_are_read_as_they_come(pipeline: Running) -> None:
    pipeline.write(
        {**reading("in", "json", mode="{type: continuous, poll_interval: 50ms}"), "in/a.json": '{"id": 1}\n'}
    )

    def stop() -> bool:
        seen = [row["id"] for row in memory.kept_rows("kept")]
        if seen == [1]:
            pipeline.write({"in/.b.json": '{"id": 2}\n'})
            (pipeline.root / "in" / ".b.json").rename(pipeline.root / "in" / "b.json")
        return 2 in seen

    pipeline.run_on(stop)
    assert ids() == [1, 2]


MIXED = """
sources:
  past: {type: file, path: past, format: json, mode: {type: bounded}}
  rows: {type: file, path: in, format: json, mode: {type: continuous, poll_interval: 50ms}}
transforms:
  both: {type: sql, primary_key: id, sql: SELECT id FROM past UNION ALL SELECT id FROM rows}
sinks:
  kept: {type: memory, from: both}
"""


@pytest.mark.parametrize("also", ["", "  also: {type: memory, from: rows}\n"], ids=["one query", "one read"])
def test_files_that_come_to_an_end_do_so_beside_others_that_do_not(pipeline: Running, also: str) -> None:
    pipeline.write({"pipeline.yml": MIXED + also, "past/a.json": '{"id": 1}\n', "in/a.json": '{"id": 11}\n'})

    def put(name: str, number: int) -> None:
        if not (pipeline.root / name).exists():
            pipeline.write({"whole.json": f'{{"id": {number}}}\n'})
            (pipeline.root / "whole.json").rename(pipeline.root / name)

    def stop() -> bool:
        seen = ids()
        if {1, 11} <= {*seen}:
            put("past/b.json", 2)
            put("in/b.json", 12)
        if 12 in seen:
            put("in/c.json", 13)
        return 13 in seen

    pipeline.run_on(stop)
    assert ids() == [1, 11, 12, 13]
    pipeline.run()
    assert ids() == [1, 2, 11, 12, 13]


@pytest.fixture
def elsewhere(pipeline: Running) -> Iterator[str]:
    """An address that nobody but Hadoop understands. What is there is the pipeline's own directory."""
    name = f"shop{uuid.uuid4().hex}"
    conf = pipeline.spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]
    conf.set("fs.hdfs.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    conf.set("fs.viewfs.overload.scheme.target.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    conf.set(f"fs.viewfs.mounttable.{name}.link./shop", pipeline.root.as_uri())
    yield f"hdfs://{name}/shop"
    conf.unset("fs.hdfs.impl")


def test_files_of_another_system_are_read_and_written(pipeline: Running, elsewhere: str) -> None:
    rest = f"transforms: {{}}\nsinks:\n  kept: {{type: file, from: rows, path: '{elsewhere}/out', format: json}}\n"
    pipeline.write(reading(f"{elsewhere}/in", "json", rest))

    def found() -> list[tuple[int, int]]:
        files = sorted((pipeline.root / "out").glob("*/part-*.json"))
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted((row["id"], row["day"]) for row in rows)

    with pytest.raises(ServiceError, match="no files matching format json found at path hdfs://"):
        pipeline.run()
    pipeline.write({"in/day=1/50% [a].json": '{"id": 1}\nbroken\n', "in/day=2/b.json": '{"id": 2}\n'})
    assert pipeline.run()["rows"].rejected == 1
    assert found() == [(1, 1), (2, 2)]
    (dead_letter,) = dead_letters(pipeline)
    assert dead_letter["topic"] == f"{elsewhere}/in/day=1/50% [a].json"
    pipeline.uncommit("rows", 0)
    pipeline.write({"in/day=1/c.json": '{"id": 3}\n'})
    pipeline.run()
    assert found() == [(1, 1), (2, 2), (3, 1)]
    pipeline.uncommit("rows", 1)
    for note in (pipeline.root / "out").glob("*/_batch.json"):
        note.write_text("")  # as HDFS has it where writing the note was interrupted
    pipeline.run()
    assert found() == [(1, 1), (2, 2), (3, 1)]


def test_a_single_file_of_another_system_and_files_that_come_there(pipeline: Running, elsewhere: str) -> None:
    pipeline.write({"in/a.rows": '{"id": 1}\n', "in/other.json": '{"id": 9}\n'})
    pipeline.write(reading(f"{elsewhere}/in/a.rows", "json")).run()
    assert ids() == [1]
    on = Running(pipeline.root, pipeline.spark, "on.yml")
    text = reading(f"{elsewhere}/in", "json", mode="{type: continuous, poll_interval: 50ms}")["pipeline.yml"]
    on.write({"on.yml": text})

    def stop() -> bool:
        if 9 in ids() and 2 not in ids():
            on.write({"in/_b.json": '{"id": 2}\n'})
            (on.root / "in" / "_b.json").rename(on.root / "in" / "b.json")
        return 2 in ids()

    on.run_on(stop)
    assert ids() == [1, 2, 9]


def test_rows_are_inserts_unless_they_say_otherwise(pipeline: Running) -> None:
    lines = [{"id": 1}, {"id": 2, "_gs_op": None}, {"id": 3, "_gs_op": "D"}, {"id": 4, "_gs_op": "u"}]
    pipeline.write({**reading("in", "json"), "in/a.json": "\n".join(map(json.dumps, lines))}).run()
    assert {row["id"]: row["_gs_op"] for row in memory.kept_rows("kept")} == {1: "i", 2: "i", 3: "D", 4: "u"}


def test_an_operation_that_is_no_text_is_refused(pipeline: Running) -> None:
    pipeline.write({**reading("in", "json"), "in/a.json": '{"id": 1, "_gs_op": 4}\n'})
    with pytest.raises(ServiceError, match=r"`_gs_op` of the files at path .* is bigint"):
        pipeline.run()


def test_no_files_at_all_are_an_error(pipeline: Running) -> None:
    pipeline.write({**reading("in", "avro"), "in/a.json": "{}"})
    with pytest.raises(ServiceError, match="no files matching format avro found at path"):
        pipeline.run()


MANY_CSV = 21
"""So many files that `validate` does not look into them."""


@pytest.mark.parametrize(
    ("file_format", "text", "said"),
    [
        ("json", '{"id": 1, "ID": 2}\n', "cannot have the columns `ID` and `id`"),
        ("json", '{"id": 1}\n{"Id": 2}\n', "cannot have the columns `Id` and `id`"),
        ("json", '{"id": 1, "a": [{"x": 1, "X": 2}]}\n', "cannot have the columns `X` and `x`"),
        ("json", '{"id": 1, "_error": "no"}\n', "cannot have a column `_error`"),
        ("json", '{"id": 1, "_unreadable_line": "no"}\n', "cannot have a column `_unreadable_line`"),
        ("json", '{"id": 1, "_GS_OP": "d"}\n', "must be written `_gs_op`"),
        ("csv", "id,ID\n1,2\n", "cannot have the columns `id` and `ID`"),
        ("csv", "id,id\n1,2\n", "cannot have two columns `id`"),
        ("csv", "id,\n1,2\n", "has no name"),
    ],
)
def test_columns_that_cannot_be_told_apart_are_refused_before_rows_are_read(
    pipeline: Running, file_format: str, text: str, said: str
) -> None:
    files = {f"in/{number:02}.{file_format}": text for number in range(MANY_CSV if file_format == "csv" else 1)}
    with pytest.raises(ServiceError) as refused:
        pipeline.write({**reading("in", file_format), **files}).run()
    assert (refused.value.code, refused.value.node) == ("column-names", "rows")
    assert said in refused.value.message
    assert refused.value.hint is not None
    assert memory.kept_rows("kept") == dead_letters(pipeline) == []


def test_columns_of_parquet_that_cannot_be_told_apart_are_refused(pipeline: Running) -> None:
    for names in (["id", "ID"], ["id", "_error"]):
        shutil.rmtree(pipeline.root / "in", ignore_errors=True)
        table(pipeline.root / "in" / "a.parquet", **{name: [1] for name in names})
        table(pipeline.root / "in" / "b.parquet", id=[1], more=[2])  # which `validate` then leaves to the run
        with pytest.raises(ServiceError) as refused:
            pipeline.write(reading("in", "parquet")).run()
        assert refused.value.code == "column-names"


def test_files_of_parquet_may_write_a_column_in_either_case(pipeline: Running) -> None:
    table(pipeline.root / "in" / "a.parquet", id=[1])
    table(pipeline.root / "in" / "b.parquet", ID=[2])
    pipeline.write(reading("in", "parquet")).run()
    assert ids() == [1, 2]


def test_headers_of_csv_may_end_with_numbers(pipeline: Running) -> None:
    pipeline.write({**reading("in", "csv"), "in/a.csv": "id,x1,name\n1,2,a\n"}).run()
    assert memory.kept_rows("kept") == [{"id": 1, "x1": 2, "name": "a", "_gs_op": "i"}]


def test_files_that_have_nothing_but_what_their_directories_say_are_refused(pipeline: Running) -> None:
    with pytest.raises(ServiceError, match="no columns beside those of their directories"):
        pipeline.write({**reading("in", "json"), "in/id=1/a.json": '{"id": 1}\n'}).run()


def test_one_bad_value_makes_no_column_a_text_and_is_told(
    pipeline: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{n},{n / 2},2024-01-{n + 1:02}\n" for n in range(20))
    pipeline.write({**reading("in", "csv"), "in/a.csv": f"id,amount,day\n{rows}20,abc,2024-02-01\n21,1,soon\n"}).run()
    assert ids() == list(range(20))
    assert {type(row["amount"]) for row in memory.kept_rows("kept")} == {float}
    assert sorted((x["offset"], x["message"]) for x in dead_letters(pipeline)) == [
        (22, "`amount`: `abc` is not a DOUBLE"),
        (23, "`day`: `soon` is not a DATE"),
    ]
    said = capsys.readouterr().err
    assert "the column `amount` at path" in said
    assert "is read as DOUBLE: 21 of 22 values are" in said


def test_declared_columns_are_read_as_they_are_declared(pipeline: Running) -> None:
    schema = "{id: int64, zip: string, amount: 'decimal(10,2)', at: timestamp}"
    lines = "id,note,at,zip,amount\n1,x,2024-01-01,007,1.5\n2,y,,008,12.345\n3,z,later,009,1\n4,z,,,\n"
    pipeline.write({**reading("in", "csv", schema=schema), "in/a.csv": lines}).run()
    rows = sorted(memory.kept_rows("kept"), key=lambda row: row["id"])
    assert [(row["id"], row["zip"], str(row["amount"])) for row in rows] == [(1, "007", "1.50"), (4, None, "None")]
    assert set(rows[0]) == {"id", "zip", "amount", "at", "_gs_op"}
    assert sorted((x["offset"], x["message"]) for x in dead_letters(pipeline)) == [
        (3, "`amount`: `12.345` is not a DECIMAL(10,2)"),
        (4, "`at`: `later` is not a TIMESTAMP"),
    ]
    memory.forget()
    schema = "{id: int64, zip: string}"
    pipeline.write({**reading("other", "json", schema=schema), "other/a.json": '{"id": 1, "zip": 7}\n{"id": "x"}\n'})
    pipeline.run(allow_rebuild=["rows"])
    assert [(row["id"], row["zip"]) for row in memory.kept_rows("kept")] == [(1, "7")]


def test_a_declared_column_that_no_header_has_is_an_error(pipeline: Running) -> None:
    pipeline.write({**reading("in", "csv", schema="{id: int64, nope: string}"), "in/a.csv": "id,n\n1,2\n"})
    with pytest.raises(PenstockError) as caught:
        pipeline.run()
    assert (caught.value.code, "a column `nope`" in caught.value.message) == ("schema-unknown", True)
