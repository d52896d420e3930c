"""What `status` and the live table say of rows that did not take part."""

import json
from pathlib import Path

import pytest

from penstock.cli import status
from penstock.cli.live import LiveTable
from penstock.cli.options import OutputFormat
from penstock.plan.deployed.state import record_progress, record_query
from penstock.plan.deployed.stores import SqliteStore
from penstock.runtime.delivery.progress import QueryProgress
from penstock.workflow.stages import check
from tests.support import write
from tests.unit.conftest import MAIN, Compile

PROJECT = """
project: {name: p}
sources: [{name: s, topic: s.v1, columns: [{name: id, type: BIGINT}]}]
models: [{name: m, sql: 'SELECT id FROM {{ source("s") }}'}]
"""
ALL_TAKEN = QueryProgress("m", "finished", batches=1, rows_in=5, rows_out=5)
SOME_NOT = QueryProgress("m", "finished", batches=2, rows_in=1200, rows_out=4, late=1100, rejected=3)


def recorded(root: Path, manifest: Compile, row: QueryProgress) -> None:
    write(root, {MAIN: PROJECT})
    place = check(root).place
    store = SqliteStore(place.state_file)
    record_query(store, place, "abc", manifest(PROJECT).query("m"))
    record_progress(store, place, {}, {"m": row.to_json()})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (ALL_TAKEN, "5 rows in, 5 out, 1 batch"),
        (SOME_NOT, "1,200 rows in, 4 out, 1,100 late, 3 rejected, 2 batches"),
    ],
)
def test_status_tells_of_rows_that_did_not_take_part_when_there_are_any(
    tmp_path: Path, project_manifest: Compile, capsys: pytest.CaptureFixture[str], row: QueryProgress, said: str
) -> None:
    recorded(tmp_path, project_manifest, row)
    status.command()
    assert capsys.readouterr().out.splitlines()[1].endswith(said)
    status.command(form=OutputFormat.JSON)
    (query,) = json.loads(capsys.readouterr().out)["queries"]
    assert (query["late"], query["rejected"]) == (row.late, row.rejected)


@pytest.mark.parametrize(
    ("row", "headings"),
    [
        (ALL_TAKEN, ["query", "state", "rows in", "rows out", "rows/s", "batch ms", "batches"]),
        (SOME_NOT, ["query", "state", "rows in", "rows out", "late", "rejected", "rows/s", "batch ms", "batches"]),
    ],
)
def test_the_live_table_has_columns_for_them_only_then(row: QueryProgress, headings: list[str]) -> None:
    table = LiveTable(lambda: [row], quiet=True, data_on_stdout=False)._table()
    assert [column.header for column in table.columns] == headings
    cells = {column.header: next(iter(column.cells)) for column in table.columns}
    assert cells.get("late", "0") == f"{row.late:,}"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (QueryProgress("m", "waiting", waiting_for=("before",)), "not started"),
        (QueryProgress("m", "running", batches=1), "killed"),
        (QueryProgress("m", "retrying", batches=1, broker_unreachable_since=3661.0), "killed"),
        (QueryProgress("m", "failed", batches=1), "failed"),
    ],
)
def test_status_says_of_a_run_that_is_gone_what_became_of_its_queries(
    tmp_path: Path, project_manifest: Compile, capsys: pytest.CaptureFixture[str], row: QueryProgress, said: str
) -> None:
    recorded(tmp_path, project_manifest, row)
    status.command()
    assert capsys.readouterr().out.splitlines()[1].split("  ")[2].startswith(said)
