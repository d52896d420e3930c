"""Notes in the checkpoint which outputs of a query already have a batch.

A batch that fails at one of several outputs is retried as a whole. Outputs in the note are skipped, because not every
sink recognises a batch. The note is written after the sink: after a crash in between, that sink gets the batch again.
"""

from collections.abc import Set
from pathlib import Path
from typing import Final

from penstock.batch import BatchRef
from penstock.runtime.checkpoint.layout import read_note, write_note

NOTE: Final = "written.json"


def written_outputs(checkpoint: Path, ref: BatchRef) -> frozenset[str]:
    """Return the outputs that have a batch. A note of other input under the same number is ignored."""
    try:
        note = read_note(checkpoint, NOTE)
    except ValueError:
        note = None
    same = note is not None and (note["batch_id"], note["offsets"]) == (ref.batch_id, list(ref.offsets))
    return frozenset(note["outputs"] if same else ())


def record_outputs(checkpoint: Path, ref: BatchRef, outputs: Set[str]) -> None:
    note = {"batch_id": ref.batch_id, "offsets": ref.offsets, "outputs": sorted(outputs)}
    write_note(checkpoint, NOTE, note)
