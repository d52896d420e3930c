"""Which queries a stop waits for, and what is said of a run that could not finish its batches."""

from types import SimpleNamespace
from typing import cast

import pytest

from penstock.errors import QueryFailed, ServiceError
from penstock.runtime.run.live_query import DrainPolicy, LiveQuery
from penstock.workflow.host import unfinished_error

LATE = QueryFailed("not-drained", "its batch was not done in time", retriable=True)


def test_those_that_were_not_done_in_time_are_named() -> None:
    error = unfinished_error({"a": LATE, "b": LATE}, 25)
    assert (error.code, error.exit_code, error.retriable) == ("not-drained", 4, True)
    assert error.message.startswith("query `a` and query `b` could not finish a batch within 25 s")
    assert error.hint is not None
    assert "PENSTOCK__SHUTDOWN_BUDGET_SECS" in error.hint


def test_one_that_waited_to_be_tried_again_says_why() -> None:
    down = ServiceError("unreachable", "no answer", hint="see there", retriable=True)
    error = unfinished_error({"a": down.with_context("batch 4 was not written to sink `kept`", node="kept")}, 25)
    assert str(error).splitlines() == [
        "query `a` could not finish a batch; the next start replays it",
        "Caused by:",
        "    batch 4 was not written to sink `kept`",
        "    not-drained  no answer",
        "        hint: see there",
    ]
    assert error.node == "kept"


@pytest.mark.parametrize(
    ("policy", "plain", "in_real_time", "ends"),
    [("auto", True, False, True), ("drain", True, True, True), ("fast", False, False, True)],
)
def test_a_policy_says_which_queries_are_waited_for(
    policy: DrainPolicy, plain: bool, in_real_time: bool, ends: bool
) -> None:
    def waited_for(*, in_real_time: bool = False, ends: bool = False) -> bool:
        live = cast(LiveQuery, SimpleNamespace(is_real_time=in_real_time, ends=ends))
        return LiveQuery.is_waited_for(live, policy)

    assert (waited_for(), waited_for(in_real_time=True), waited_for(ends=True)) == (plain, in_real_time, ends)


def test_a_run_that_waited_for_its_broker_says_so() -> None:
    error = unfinished_error({"a": LATE}, 25, 1794990480.0)
    assert error.code == "not-drained"
    assert "broker unreachable since 08:28:00Z" in error.message
    assert "broker" in (error.hint or "")
