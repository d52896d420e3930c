from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from penstock.clients.files.formats import FORMATS, files_under, known_columns
from penstock.sql.types.columns import Column
from tests.support import write


def test_files_come_in_order_of_their_names_without_hidden_ones(tmp_path: Path) -> None:
    names = ["b.csv", "a.csv", "deep/c.csv", "deep/d.csv.gz", "_staging/e.csv", ".f.csv", "g.json", "h.csv.crc", "x"]
    write(tmp_path, dict.fromkeys(names, ""))
    (tmp_path / "folder.csv").mkdir()
    found = [str(p.relative_to(tmp_path)) for p in files_under(tmp_path, FORMATS["csv"])]
    assert found == ["a.csv", "b.csv", "deep/c.csv", "deep/d.csv.gz"]


def test_a_hidden_directory_above_the_root_does_not_hide_its_files(tmp_path: Path) -> None:
    write(tmp_path, {".penstock/topics/t/a.jsonl": "{}"})
    assert len(list(files_under(tmp_path / ".penstock" / "topics" / "t", FORMATS["json"]))) == 1


def test_a_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    write(tmp_path, {"data.txt": "a,b\n"})
    assert list(files_under(tmp_path / "data.txt", FORMATS["csv"])) == [tmp_path / "data.txt"]


def test_a_directory_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert list(files_under(tmp_path / "nowhere", FORMATS["csv"])) == []
    assert known_columns(tmp_path / "nowhere", FORMATS["csv"]) is None


@pytest.mark.parametrize(
    "head", [b"id,full name\n1,x\n", b"\xef\xbb\xbfid,full name\r\n1,x\r\n", b'"id","full name"\n']
)
def test_the_columns_of_csv_are_its_first_line(tmp_path: Path, head: bytes) -> None:
    write(tmp_path, {"a.csv": head})
    assert known_columns(tmp_path, FORMATS["csv"]) == (Column("id"), Column("full name"))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01"])
def test_csv_that_cannot_be_read_tells_nothing(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, {"a.csv": content})
    assert known_columns(tmp_path, FORMATS["csv"]) is None


def test_compressed_csv_tells_nothing_wrong(tmp_path: Path) -> None:
    import gzip

    write(tmp_path, {"a.csv.gz": gzip.compress(b"id,name\n1,x\n")})
    assert known_columns(tmp_path, FORMATS["csv"]) in (None, (Column("id"), Column("name")))


def test_json_tells_its_columns_to_spark_only(tmp_path: Path) -> None:
    write(tmp_path, {"a.jsonl": '{"id": 1}\n'})
    assert known_columns(tmp_path, FORMATS["json"]) is None


def test_parquet_tells_names_and_types(tmp_path: Path) -> None:
    schema = pyarrow.schema(
        [
            ("id", pyarrow.int64()),
            ("small", pyarrow.int32()),
            ("name", pyarrow.string()),
            ("price", pyarrow.decimal128(10, 2)),
            ("rate", pyarrow.float64()),
            ("short_rate", pyarrow.float32()),
            ("ok", pyarrow.bool_()),
            ("at", pyarrow.timestamp("us", tz="UTC")),
            ("day", pyarrow.date32()),
            ("raw", pyarrow.binary()),
            ("tags", pyarrow.list_(pyarrow.string())),
            ("place", pyarrow.struct([("city", pyarrow.string())])),
        ]
    )
    pyarrow.parquet.write_table(schema.empty_table(), tmp_path / "a.parquet")
    found = known_columns(tmp_path, FORMATS["parquet"])
    assert found is not None
    known = {c.name: c.type for c in found}
    assert list(known) == schema.names
    assert {name: known[name] for name in list(known)[:10]} == {
        "id": "BIGINT",
        "small": "INT",
        "name": "STRING",
        "price": "DECIMAL(10, 2)",
        "rate": "DOUBLE",
        "short_rate": "FLOAT",
        "ok": "BOOLEAN",
        "at": "TIMESTAMP",
        "day": "DATE",
        "raw": "BINARY",
    }
    assert known["tags"] in (None, "ARRAY<STRING>")
    assert known["place"] in (None, "STRUCT<city: STRING>")


def test_parquet_that_is_none_tells_nothing(tmp_path: Path) -> None:
    write(tmp_path, {"a.parquet": b"PAR1 not really"})
    assert known_columns(tmp_path, FORMATS["parquet"]) is None


def test_a_row_that_does_not_fit_stops_the_reader() -> None:
    for name in ("json", "csv"):
        assert FORMATS[name].read_options["mode"] == "FAILFAST"


@pytest.mark.parametrize("name", FORMATS)
def test_spark_looks_for_the_same_files_as_we_do(name: str) -> None:
    """`glob` is for Spark, `matches` for us."""
    endings = FORMATS[name].glob.removeprefix("*.{").removesuffix("}").split(",")
    assert {f"{suffix}.gz" for suffix in FORMATS[name].suffixes} <= set(endings)
    assert all(FORMATS[name].matches(Path(f"a.{ending}")) for ending in endings)
    assert not FORMATS[name].matches(Path(f"a.{endings[0].upper()}"))
