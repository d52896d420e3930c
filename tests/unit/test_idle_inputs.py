"""Inputs that are silent: when event time goes on without rows, and how far."""

from penstock.runtime.query.watermark_heartbeat import Silence


def test_time_goes_on_by_what_was_waited_once_that_is_long_enough() -> None:
    silence = Silence(idle_ms=100, since_ms=1_000)
    silence.note_batch(50_000, began_ms=1_000, now_ms=2_000)
    silence.until_ms = 2_099
    assert silence.advance_time(None) is None
    silence.until_ms = 2_150
    assert silence.advance_time(None) == 50_150
    silence.until_ms = 2_200
    assert silence.advance_time(None) is None
    silence.until_ms = 2_250
    assert silence.advance_time(None) == 50_250


def test_a_row_ends_the_silence_and_an_old_one_does_not_take_time_back() -> None:
    silence = Silence(idle_ms=100, since_ms=0)
    silence.note_batch(50_000, began_ms=0, now_ms=1_000)
    silence.until_ms = 1_100
    assert silence.advance_time(None) == 50_100
    silence.note_batch(40_000, began_ms=1_100, now_ms=1_300)
    assert silence.advance_time(None) is None
    silence.until_ms = 1_400
    assert silence.advance_time(None) == 50_200


def test_while_a_batch_is_under_way_nobody_knows_whether_rows_wait() -> None:
    silence = Silence(idle_ms=100, since_ms=0)
    silence.note_batch(50_000, began_ms=0, now_ms=1_000)
    silence.note_batch(None, began_ms=1_050, now_ms=9_000)
    assert silence.advance_time(None) is None
    silence.note_batch(None, began_ms=1_120, now_ms=9_500)
    assert silence.advance_time(None) == 50_120


def test_an_input_without_any_row_starts_where_the_others_are() -> None:
    silence = Silence(idle_ms=100, since_ms=0)
    silence.note_batch(None, began_ms=100, now_ms=200)
    assert silence.advance_time(None) is None
    assert silence.advance_time(70_000) == 70_100
    silence.note_batch(None, began_ms=200, now_ms=300)
    assert silence.advance_time(99_000) == 70_200


def test_after_a_restart_time_goes_on_from_where_it_was() -> None:
    silence = Silence(idle_ms=100, since_ms=5_000, latest_ms=60_000)
    silence.until_ms = 5_100
    assert silence.advance_time(None) == 60_100
