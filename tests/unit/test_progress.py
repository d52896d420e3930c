"""The board that queries' progress is written on."""

from penstock.errors import Fault
from penstock.runtime.progress import ProgressBoard, QueryProgress

DOWN = Fault("kept", "no answer", internal=False, retriable=True)


def row(board: ProgressBoard) -> QueryProgress:
    (found,) = board.snapshot()
    return found


def test_a_query_that_is_tried_again_stays_so_until_a_batch_is_done() -> None:
    board = ProgressBoard(["q"])
    board.started("q")
    board.put_off("q", DOWN, 1, 0.1)
    first = row(board).retry
    board.started("q")
    assert (row(board).state, row(board).error) == ("retrying", DOWN)
    board.put_off("q", DOWN, 2, 0.2)
    second = row(board).retry
    assert first is not None
    assert second is not None
    assert (second.attempt, second.since) == (2, first.since)
    assert row(board).to_json()["error"] == {
        "node": "kept",
        "message": "no answer",
        "internal": False,
        "retriable": True,
    }
    board.started("q")
    board.batch("q", 0, 1, 1, 1.0)
    assert (row(board).state, row(board).error, row(board).retry) == ("running", None, None)


def test_a_query_that_has_nothing_to_do_is_not_tried_again_any_more() -> None:
    board = ProgressBoard(["q"])
    board.put_off("q", DOWN, 1, 0.1)
    board.started("q")
    board.idle("q")
    assert (row(board).state, row(board).retry) == ("running", None)


def test_what_is_over_has_no_time_left() -> None:
    board = ProgressBoard(["q"])
    board.started("q")
    board.reached("q", 0.5, 7, 12.0)
    assert (row(board).part, row(board).left_secs) == (0.5, 12.0)
    board.ended("q", "finished")
    assert (row(board).part, row(board).rows_under_way, row(board).left_secs) == (1.0, 0, None)
