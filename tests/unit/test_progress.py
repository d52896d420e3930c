"""The board that queries' progress is written on."""

from penstock.errors import Fault
from penstock.runtime.delivery.progress import ProgressBoard, QueryProgress

DOWN = Fault("kept", "no answer", internal=False, retriable=True)


def row(board: ProgressBoard) -> QueryProgress:
    (found,) = board.snapshot()
    return found


def test_a_query_that_is_tried_again_stays_so_until_a_batch_is_done() -> None:
    board = ProgressBoard(["q"])
    board.start_query("q")
    board.note_retry("q", DOWN, 1, 0.1)
    first = row(board).retry
    board.start_query("q")
    assert (row(board).state, row(board).error) == ("retrying", DOWN)
    board.note_retry("q", DOWN, 2, 0.2)
    second = row(board).retry
    assert first is not None
    assert second is not None
    assert (second.attempt, second.since) == (2, first.since)
    assert row(board).to_json()["error"] == {
        "node": "kept",
        "code": None,
        "message": "no answer",
        "hint": None,
        "internal": False,
        "retriable": True,
    }
    board.start_query("q")
    board.commit_batch("q", 0, 1, 1, 1.0)
    assert (row(board).state, row(board).error, row(board).retry) == ("running", None, None)


def test_a_query_that_has_nothing_to_do_is_not_tried_again_any_more() -> None:
    board = ProgressBoard(["q"])
    board.note_retry("q", DOWN, 1, 0.1)
    board.start_query("q")
    board.note_idle("q")
    assert (row(board).state, row(board).retry) == ("running", None)


def test_what_is_over_has_no_time_left() -> None:
    board = ProgressBoard(["q"])
    board.start_query("q")
    board.note_completion("q", 0.5, 7, 12.0)
    assert (row(board).part, row(board).left_secs) == (0.5, 12.0)
    board.end_query("q", "finished")
    assert (row(board).part, row(board).rows_under_way, row(board).left_secs) == (1.0, 0, None)


def test_rows_count_once_however_often_their_batch_is_tried() -> None:
    """The first attempt writes to `a` and fails at `b`; the second one finds the batch at `a`, and writes to `b`."""
    board = ProgressBoard(["q"])
    board.start_query("q")
    for output, rows in (("a", 10), ("b", 7)):
        board.begin_batch("q", 0)
        board.count_rejected("q", 3, "s", batch_id=0)
        board.count_written("q", rows, output, batch_id=0)
    assert (row(board).rows_out, row(board).rejected) == (0, 0)
    board.begin_batch("q", 1)
    board.count_written("q", 100, "a", batch_id=1)
    board.commit_batch("q", 0, 20, 1, 1.0)
    assert (row(board).rows_out, row(board).rejected) == (17, 3)
    assert (board.committed_rows("q", "a"), board.committed_rows("q", "b")) == (10, 7)
    board.commit_batch("q", 1, 100, 1, 1.0)
    assert (row(board).rows_out, row(board).rejected) == (117, 3)


def test_no_rows_a_second_go_through_a_query_without_rows() -> None:
    board = ProgressBoard(["q"])
    board.start_query("q")
    board.commit_batch("q", 0, 20, 1, 1234.5)
    assert row(board).rows_per_second == 1234.5
    board.note_idle("q")
    assert row(board).rows_per_second == 0


def test_a_query_waits_for_those_that_it_reads_from() -> None:
    board = ProgressBoard(["a", "b"], {"b": ("a",)})

    def waits() -> tuple[str, ...]:
        return board.snapshot()[1].waiting_for

    board.start_query("a")
    assert waits() == ("a",)
    board.start_query("b")
    assert waits() == ()
    board.note_retry("a", DOWN, 1, 0.1)
    assert waits() == (), "it may still have rows of before"
    board.note_idle("b")
    assert waits() == ("a",)
    board.end_query("a", "finished")
    assert waits() == ()


def test_a_broker_that_does_not_answer_is_told_until_it_does() -> None:
    board = ProgressBoard(["q"])
    board.start_query("q")
    board.note_broker(["q"], 12.0)
    assert row(board).to_json()["broker_unreachable_since"] == 12.0
    board.note_broker(["q"], None)
    assert row(board).broker_unreachable_since is None


def test_a_query_that_waits_when_the_run_is_over_was_not_started() -> None:
    board = ProgressBoard(["a", "b", "c"], {"b": ("a",)})
    board.start_query("a")
    board.end_query("a", "failed")
    board.close()
    assert [(row.state, row.waiting_for) for row in board.snapshot()] == [
        ("failed", ()),
        ("not started", ("a",)),
        ("not started", ()),
    ]
