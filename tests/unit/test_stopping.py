"""What is said of a run that could not finish its batches."""

from penstock.cli.stopping import given_up
from penstock.errors import QueryFailed, ServiceError

LATE = QueryFailed("not-drained", "its batch was not done in time", retriable=True)


def test_those_that_were_not_done_in_time_are_named() -> None:
    error = given_up({"a": LATE, "b": LATE}, 25)
    assert (error.code, error.exit_code, error.retriable) == ("not-drained", 4, True)
    assert error.message.startswith("query `a` and query `b` could not finish a batch within 25 s")
    assert error.hint is not None
    assert "PENSTOCK__SHUTDOWN_BUDGET_SECS" in error.hint


def test_one_that_waited_to_be_tried_again_says_why() -> None:
    down = ServiceError("unreachable", "no answer", hint="see there", retriable=True)
    error = given_up({"a": down.during("batch 4 was not written to sink `kept`", node="kept")}, 25)
    assert str(error).splitlines() == [
        "query `a` could not finish a batch; the next start does it again",
        "Caused by:",
        "    batch 4 was not written to sink `kept`",
        "    not-drained  no answer",
        "        hint: see there",
    ]
    assert error.node == "kept"
