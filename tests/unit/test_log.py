"""The lines that a run writes to stderr where nobody watches."""

import json
from collections.abc import Iterator

import pytest

from penstock.cli import output
from penstock.errors import Diagnostic, QueryFailed, ServiceError, Severity
from penstock.runtime.delivery.progress import QueryProgress

BROKEN = QueryFailed("query-failed", "it broke", hint="mend it").with_context("query `q` stopped", node="q")


@pytest.fixture(autouse=True)
def no_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(output, "json_mode", False)  # a command of another test may have asked for JSON
    yield
    output.log_format = None


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def test_a_line_has_a_time_and_a_level() -> None:
    output.begin_log()
    assert output.log_line("one\ntwo", "WARN", {"query": "q"}, 1.5) == "1970-01-01T00:00:01.500Z WARN  one\n    two"
    output.begin_log("json")
    assert json.loads(output.log_line("one\ntwo", "INFO", {"query": "q"}, 1.5)) == {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "INFO",
        "message": "one\ntwo",
        "query": "q",
    }


def test_every_line_of_a_run_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    from penstock.cli.live import LiveTable

    output.begin_log()
    output.show_diagnostics([Diagnostic("no-effect", "nothing", severity=Severity.INFO)])
    output.say("\nStarting")
    output.warn("look")
    with LiveTable(lambda: [QueryProgress("q", "finished", 1, 5, 4)], quiet=False, data_on_stdout=False):
        pass
    output.fail(BROKEN)
    assert [line.split("Z ", 1)[-1] for line in written(capsys)] == [
        "INFO  no-effect  nothing",
        "INFO  Starting",
        "WARN  look",
        "INFO  q: finished: 5 rows in, 4 out, 1 batch",
        "ERROR query `q` stopped",
        "    Caused by:",
        "        query-failed  it broke",
        "            hint: mend it",
    ]


def test_json_has_one_object_a_line_with_what_an_alert_needs(capsys: pytest.CaptureFixture[str]) -> None:
    output.begin_log("json")
    output.fail(ServiceError("unreachable", "no answer", hint="start it", retriable=True))
    (line,) = map(json.loads, written(capsys))
    assert (line["level"], line["message"], line["code"], line["hint"]) == (
        "ERROR",
        "no answer",
        "unreachable",
        "start it",
    )


def test_each_failure_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (QueryFailed("query-failed", f"reason {n}", hint=f"do {n}") for n in (1, 2))
    output.report_failure(second)
    first.others = [second]
    output.fail(first)
    assert written(capsys) == [
        "Error: query-failed  reason 2",
        "    hint: do 2",
        "Error: query-failed  reason 1",
        "    hint: do 1",
    ]
    output.fail(first)
    assert written(capsys) == ["Error: 2 queries failed, for the reasons above"]
