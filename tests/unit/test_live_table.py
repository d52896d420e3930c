"""The table that `run` shows."""

import math
import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console, RenderableType

from penstock.cli.live import Epochs, LiveTable, bars, notes, skipped_rows_note, table
from penstock.errors import Fault
from penstock.runtime.delivery.progress import QueryProgress, Retry

ROWS = (
    QueryProgress("orders_lenient", "finished", 12, 1_234_567, 1_234_560, 7, 3, 0, 20_512.3, 1_240),
    QueryProgress("revenue_by_country_and_minute", "running", 1, 5, 4, rows_per_second=10, batch_ms=900),
)


RETRYING = QueryProgress(
    "kept", "retrying", 3, 10, 10, error=Fault("kept", "no answer", False, True), retry=Retry(4, 3661.0, 3662.0)
)
ENDING = QueryProgress("copied", "running", 1, 900, 900, seconds=10, part=0.25, rows_under_way=100, left_secs=3725.4)


def lines_of(*parts: RenderableType) -> list[str]:
    console = Console(file=StringIO(), width=110)
    for part in parts:
        console.print(part)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_a_query_that_is_tried_again_says_how_often_and_why() -> None:
    assert lines_of(*notes(ROWS)) == []
    assert lines_of(*notes((*ROWS, RETRYING))) == ["kept: retry 4 since 01:01:01Z: no answer"]


def test_a_query_that_failed_while_others_run_is_shown_with_its_hint() -> None:
    failed = QueryProgress("kept", "failed", error=Fault("kept", "no table", False, False, "table-mismatch", "make it"))
    assert lines_of(*notes((*ROWS, failed))) == ["kept: failed: no table", "    hint: make it"]


def test_a_table_and_a_log_say_what_queries_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    cut_off = replace(ROWS[1], query="a", broker_unreachable_since=3661.0)
    waiting = QueryProgress("b", "waiting", waiting_for=("a",))
    states = [re.split(r"\s{2,}", line)[1] for line in lines_of(table((cut_off, waiting), 110))[1:]]
    assert states == ["broker unreachable since 01:01:01Z", "waiting for upstream"]
    shown = [cut_off]
    with LiveTable(lambda: shown, quiet=False, data_on_stdout=False) as live:
        live.refresh()
        live.refresh()
        shown[0] = replace(cut_off, broker_unreachable_since=None)
        live.refresh()
    assert capsys.readouterr().err.splitlines()[:2] == [
        "a: broker unreachable since 01:01:01Z",
        "a: the broker is reachable again",
    ]


def test_batches_that_are_done_are_told_one_after_the_other_and_not_too_often() -> None:
    epochs, done = Epochs(every_secs=5), replace(ROWS[1], batches=2)
    assert epochs.next_line([replace(ROWS[1], batches=0)], 100) is None
    assert epochs.next_line([ROWS[1]], 101) == "Epoch finalized: 1"
    assert epochs.next_line([ROWS[1]], 200) is None
    assert epochs.next_line([done], 200) == "Epoch finalized: 2"
    assert epochs.next_line([replace(done, batches=9)], 204) is None
    assert epochs.next_line([replace(done, batches=9)], math.inf) == "Epoch finalized: 3"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_log_is_told_of_batches_and_a_terminal_is_not(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "is_terminal", is_terminal)
    with LiveTable(lambda: ROWS, quiet=False, data_on_stdout=False, epochs=Epochs(5)) as live:
        live.refresh()
        live.refresh()
    written = capsys.readouterr()
    assert "orders_lenient" in written.err
    assert (written.out, written.err.count("Epoch finalized: 1")) == ("", 0 if is_terminal else 1)


def test_a_log_is_told_what_keeps_a_query_back_and_when_nothing_does(capsys: pytest.CaptureFixture[str]) -> None:
    shown = [RETRYING]
    with LiveTable(lambda: shown, quiet=False, data_on_stdout=False) as live:
        for row in (RETRYING, replace(RETRYING, retry=Retry(5, 3661.0, 3670.0)), replace(ROWS[1], query="kept")):
            shown[0] = row
            live.refresh()
    assert capsys.readouterr().err.splitlines()[:2] == ["kept: retrying: no answer", "kept: running again"]


def test_a_query_that_comes_to_an_end_has_a_bar_with_rows_rate_and_the_time_that_is_left() -> None:
    assert lines_of(*bars(ROWS, 110)) == []
    (line,) = lines_of(*bars((*ROWS, ENDING), 110))
    assert line.startswith("copied  ━━━━━━━━━━")
    assert re.split(r"\s{2,}", line)[2:] == ["25%", "1,000 rows", "100 rows/s", "1:02:05 left"]
    assert lines_of(*bars((replace(ENDING, state="finished"),), 110)) == []


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveTable(lambda: [ENDING, RETRYING], quiet=False, data_on_stdout=False) as shown:
        shown.refresh()
    told = capsys.readouterr()
    assert told.out == ""
    assert "copied" in told.err
    assert "━" not in told.err
    assert "left" not in told.err


def drawn(rows: tuple[QueryProgress, ...], width: int) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(table(rows, width))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def test_all_columns_have_their_units_in_the_header() -> None:
    assert drawn(ROWS, 120) == [
        "query                          state       rows in   rows out  late  rejected  rows/s  batch ms  batches",
        "orders_lenient                 finished  1,234,567  1,234,560     3         7  20,512     1,240       12",
        "revenue_by_country_and_minute  running           5          4     0         0      10       900        1",
    ]


def test_what_matters_least_is_left_out_where_there_is_no_room() -> None:
    assert drawn(ROWS, 80) == [
        "query                          state       rows in   rows out  late  rejected",
        "orders_lenient                 finished  1,234,567  1,234,560     3         7",
        "revenue_by_country_and_minute  running           5          4     0         0",
    ]


@pytest.mark.parametrize("width", [60, 70])
def test_nothing_is_cut_but_long_names_are_folded(width: int) -> None:
    lines = drawn(ROWS, width)
    assert "…" not in "".join(lines)
    assert lines[1].split()[-4:] == ["1,234,567", "1,234,560", "3", "7"]


def test_late_and_rejected_are_shown_only_if_there_are_any() -> None:
    words = "query state rows in rows out rows/s batch ms batches"
    assert " ".join(drawn(ROWS[1:], 120)[0].split()) == words


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (QueryProgress("m", "finished", rows_in=5, rows_out=5), None),
        (
            QueryProgress("m", "finished", rows_in=9, rejected=7, kept_in=("m.errors",)),
            ("m: 7 rows rejected; kept in m.errors: see `penstock errors list`", False),
        ),
        (
            QueryProgress(
                "m", "finished", rows_in=9, rejected=1, late=2, kept_in=("s.errors", "m.errors"), late_kept=True
            ),
            ("m: 1 row rejected, 2 rows too late; kept in s.errors and m.errors: see `penstock errors list`", False),
        ),
        (QueryProgress("m", "failed", rows_in=9, late=1), ("m: at least 1 row too late; dropped", False)),
        (
            QueryProgress("m", "finished", rows_in=9, rejected=1, late=92, kept_in=("s.errors",)),
            (
                "m: 1 row rejected; kept in s.errors: see `penstock errors list`; at least 92 rows too late; dropped",
                False,
            ),
        ),
        (
            QueryProgress("m", "finished", rows_in=7, rejected=7, kept_in=("m.errors",)),
            ("m: all 7 rows rejected; kept in m.errors: see `penstock errors list`", True),
        ),
        (QueryProgress("m", "finished", rows_in=1, rejected=1), ("m: 1 row rejected; not kept", True)),
        (
            QueryProgress("several_sinks", "finished", rows_in=7, rows_out=20, rejected=8),
            ("several_sinks: 8 rows rejected; not kept", False),
        ),
    ],
)
def test_a_run_ends_with_what_did_not_take_part(row: QueryProgress, said: tuple[str, bool] | None) -> None:
    assert skipped_rows_note(row) == said
