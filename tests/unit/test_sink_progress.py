"""Which outputs have a batch already."""

from dataclasses import replace
from pathlib import Path

from penstock.batch import BatchRef
from penstock.runtime.delivery import sink_progress

REF = BatchRef("numbers", "sink.one", "c0ffee", 3, ("numbers:{}",))


def test_a_batch_is_known_by_its_number_and_its_input(tmp_path: Path) -> None:
    assert sink_progress.written_outputs(tmp_path, REF) == frozenset()
    sink_progress.record_outputs(tmp_path, REF, {"sink.one", "sink.two"})
    assert sink_progress.written_outputs(tmp_path, replace(REF, output="sink.two")) == {"sink.one", "sink.two"}
    assert sink_progress.written_outputs(tmp_path, replace(REF, batch_id=4)) == frozenset()
    assert sink_progress.written_outputs(tmp_path, replace(REF, offsets=("numbers:{1}",))) == frozenset()


def test_a_note_that_is_damaged_says_nothing(tmp_path: Path) -> None:
    (tmp_path / sink_progress.NOTE).write_text('{"batch_id": 3')
    assert sink_progress.written_outputs(tmp_path, REF) == frozenset()
