"""The first rows of Parquet files, as `show` and `errors list` have them without Spark."""

import os
from datetime import datetime
from pathlib import Path

import pyarrow
import pyarrow.parquet

from penstock.clients.dead_letters.model import read_from_directories
from penstock.clients.files.parquet import first_rows


def test_times_of_96_bits_are_shown_beyond_the_year_2262(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    times = pyarrow.array([datetime(9999, 1, 1), datetime(1, 1, 1)], pyarrow.timestamp("us"))
    pyarrow.parquet.write_table(pyarrow.table({"at": times}), file, use_deprecated_int96_timestamps=True)
    assert [row["at"] for row in first_rows([file], 10)] == [
        "9999-01-01T00:00:00.000000Z",
        "0001-01-01T00:00:00.000000Z",
    ]


def test_times_that_python_does_not_know_are_shown_as_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    year_10000 = 253402300800000000
    times = pyarrow.array([year_10000, None], pyarrow.timestamp("us"))
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "at": times}), file)
    assert first_rows([file], 10) == [{"id": 1, "at": year_10000}, {"id": 2, "at": None}]


def test_rows_have_the_columns_that_were_added_later(tmp_path: Path) -> None:
    old, newer = tmp_path / "z.parquet", tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2]}), old)
    pyarrow.parquet.write_table(pyarrow.table({"id": [3], "more": ["x"]}), newer)
    os.utime(old, (1, 1))
    assert first_rows([old, newer], 1) == [{"id": 1, "more": None}]
    assert first_rows([newer, old], 2) == [{"id": 3, "more": "x"}, {"id": 1, "more": None}]


def not_utf_8(*values: bytes | None) -> pyarrow.Array:
    return pyarrow.array(values, pyarrow.binary()).view(pyarrow.string())


def test_texts_that_are_not_utf_8_are_shown_in_base_64(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "text": not_utf_8(b"\xff", b"ok")}), file)
    assert first_rows([file], 10) == [{"id": 1, "text": "base64:/w=="}, {"id": 2, "text": "ok"}]


def test_dead_letters_keep_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / "orders.errors" / "a-0"
    folder.mkdir(parents=True)
    table = {"key": not_utf_8(None, b""), "value": not_utf_8(b'{"a": "\xff"}', b"text"), "node": ["model.m"] * 2}
    pyarrow.parquet.write_table(pyarrow.table(table), folder / "part.parquet")
    first, second = read_from_directories(tmp_path, ["orders.errors"])
    assert (first.key, first.value, first.about["value"]) == (None, b'{"a": "\xff"}', "base64:eyJhIjogIv8ifQ==")
    assert (second.key, second.value, second.about["key"], second.about["value"]) == (b"", b"text", "", "text")
