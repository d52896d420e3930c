"""How `penstock show` puts rows: as a table or as blocks of lines, and as JSON."""

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from penstock.cli import show
from penstock.cli.options import OutputFormat
from penstock.cli.output import exact_json
from penstock.cli.table import lines
from penstock.errors import ProjectInvalid
from tests.support import write
from tests.unit.conftest import MAIN

LARGE = Decimal("12345678901234567890.12")


def test_decimals_keep_their_digits_as_text() -> None:
    rows = [{"id": 1, "price": Decimal("10.00")}, {"id": 20, "price": LARGE}, {"id": 3, "price": Decimal("0E-18")}]
    assert list(lines(rows, 80)) == [
        "id                    price",
        " 1                    10.00",
        "20  12345678901234567890.12",
        " 3     0.000000000000000000",
    ]


def test_decimals_are_exact_numbers_in_json() -> None:
    rows = [{"a": LARGE, "b": [Decimal("5.50"), None], "c": {"d": "ä", "e": 1.5}, "f": [], "g": {}}]
    text = exact_json(rows, indent=2)
    assert json.loads(text, parse_float=Decimal) == [{**rows[0], "c": {"d": "ä", "e": Decimal("1.5")}}]
    assert '"a": 12345678901234567890.12,' in text
    assert "5.50" in text
    plain = [{"a": 1, "b": [True, None], "c": {"d": "ä"}, "f": [], "g": {}}]
    assert exact_json(plain, indent=2) == json.dumps(plain, indent=2, ensure_ascii=False)


def test_zero_fractions_of_seconds_are_left_out() -> None:
    times = ["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.120000Z", "2026-01-01T00:00:01Z", "at .000000Z"]
    assert list(lines([{"at": time} for time in times], None))[1:] == [
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00.12Z",
        "2026-01-01T00:00:01Z",
        "at .000000Z",
    ]


ROW = {
    "id": 1234567,
    "note": "a text that goes on and on, far beyond what fits",
    "amount": Decimal("1234567.89"),
    "at": "2026-01-01T10:00:00.000000Z",
}


def test_texts_are_cut_before_numbers_and_times() -> None:
    head, row = lines([ROW], 70)
    assert len(row) <= 70
    assert "…" in row
    assert row.startswith("1234567  a text that")
    assert row.endswith("1234567.89  2026-01-01T10:00:00Z")
    assert head.split() == list(ROW)


def test_rows_that_do_not_fit_are_blocks_of_lines() -> None:
    assert list(lines([ROW, {**ROW, "id": None}], 40)) == [
        "id      1234567",
        "note    a text that goes on and on, far beyond what fits",
        "amount  1234567.89",
        "at      2026-01-01T10:00:00Z",
        "",
        "id      ∅",
        "note    a text that goes on and on, far beyond what fits",
        "amount  1234567.89",
        "at      2026-01-01T10:00:00Z",
    ]


def test_a_file_takes_lines_of_any_length() -> None:
    rows = list(lines([{f"column_{n}": "x" * 30 for n in range(9)}], None))
    assert len(rows) == 2
    assert "…" not in rows[1]


def test_no_rows_are_no_lines() -> None:
    assert list(lines([], 80)) == []


# Topics for errors

PROJECT = """
project: {name: p}
sources: [{name: orders, topic: orders.v1, columns: [{name: id, type: BIGINT}]}]
models: [{name: large, sql: 'SELECT id FROM {{ source("orders") }}'}]
"""


@pytest.mark.parametrize("name", ["large.errors", "model.large.errors"])
def test_a_topic_for_errors_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    write(tmp_path, {MAIN: PROJECT})
    folder = tmp_path / ".penstock" / "topics" / "large.errors" / "0"
    folder.mkdir(parents=True)
    write_table(pa.table({"code": ["row-failed"], "value": ['{"id":1}']}), folder / "part.parquet")
    show.command(name, form=OutputFormat.JSON)
    assert json.loads(capsys.readouterr().out) == [{"code": "row-failed", "value": '{"id":1}'}]


MASKED = """
project: {name: p}
sources:
  - name: orders
    topic: orders.v1
    columns: [{name: id, type: BIGINT}, {name: email, type: STRING, classification: sensitive}]
models: [{name: large, sql: 'SELECT id FROM {{ source("orders") }}'}]
"""


def test_dead_letters_that_were_kept_before_columns_were_masked_are_covered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {MAIN: MASKED})
    folder = tmp_path / ".penstock" / "topics" / "large.errors" / "0-0"
    folder.mkdir(parents=True)
    rows = {
        "key": ["ada", "ada", None],
        "value": ['{"id":1,"email":"ada@example.com"}', '{"id":2,"email":"ada@example.com"}', "ada@example"],
        "code": ["row-failed", "row-failed", "not-json"],
        "message": [
            "[CAST_INVALID_INPUT] The value 'ada@example.com' cannot be cast",
            "no",
            "`ada@example` is no JSON",
        ],
        "node": ["model.large", "model.gone", "model.large"],
    }
    write_table(pa.table(rows), folder / "part.parquet")
    show.command("large.errors", form=OutputFormat.JSON)
    said = capsys.readouterr().out
    assert "ada" not in said
    one, other, broken = json.loads(said)
    assert json.loads(one["value"]) == {"id": 1, "email": "***"}
    assert json.loads(other["value"]) == {"id": 2, "email": "***"}
    assert (broken["code"], broken["value"], broken["node"]) == ("not-json", None, "model.large")

    write(tmp_path, {MAIN: MASKED + "defaults: {dead_letters: clear}\n"})
    show.command("large.errors", form=OutputFormat.JSON)
    assert "ada@example.com" in capsys.readouterr().out


def test_a_source_without_errors_shows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {MAIN: PROJECT})
    show.command("orders.errors")
    assert capsys.readouterr().err == "0 rows.\n"


def test_errors_of_nothing_are_no_topic(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    with pytest.raises(ProjectInvalid):
        show.command("nowhere.errors")
