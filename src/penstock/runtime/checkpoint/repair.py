"""Repairs the files of a checkpoint where that loses no row. Nothing here needs Spark."""

import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from penstock.batch import BatchRef
from penstock.plan.deployed.checkpoint_damage import (
    Damage,
    find_damage,
    header_before,
    is_offsets,
    ledger_id,
    ledger_offsets,
)
from penstock.plan.deployed.place import last_number
from penstock.runtime.checkpoint.layout import batch_header, batch_offsets, checkpoint_id


def repair(checkpoint: Path, query: str, outputs: tuple[Path, ...]) -> Iterator[Damage]:
    """Repair one file after the other, and yield what was repaired.

    Damaged files are kept as `.damaged`. If a file cannot be repaired, it is yielded last.
    """
    while (damage := find_damage(checkpoint, outputs)) is not None:
        yield damage
        if damage.repair is None:
            return
        _repair_file(damage, checkpoint, query, outputs)


def _repair_file(damage: Damage, checkpoint: Path, query: str, outputs: tuple[Path, ...]) -> None:
    file = damage.file
    match damage.code:
        case "checkpoint-metadata-damaged":
            _replace(file, json.dumps({"id": ledger_id(checkpoint, outputs) or str(uuid.uuid4())}))
        case "checkpoint-offsets-damaged" | "checkpoint-offsets-missing":
            _repair_offsets(checkpoint, int(file.name), outputs)
        case "checkpoint-commits-damaged":
            reached = int(batch_header(checkpoint, int(file.name))["batchWatermarkMs"])
            _replace(file, "v1\n" + json.dumps({"nextBatchWatermarkMs": reached}))
        case "checkpoint-note-damaged":
            _put_aside(file)
        case "batch-note-damaged":
            _replace(file, json.dumps(asdict(_batch(file, checkpoint, query))))
        case "checkpoint-sources-damaged":
            raise AssertionError(damage)  # nobody knows what was read


def _repair_offsets(checkpoint: Path, number: int, outputs: tuple[Path, ...]) -> None:
    """Restore offsets from the ledger of an output, or from the next batch if that is committed. Otherwise the file is
    moved away, and Spark plans the batch again."""
    file, log = checkpoint / "offsets" / str(number), checkpoint / "offsets"
    lines, following = ledger_offsets(checkpoint, outputs, number), log / str(number + 1)
    if lines is not None:
        _replace(file, "\n".join(["v2", _header(checkpoint, number), *lines]))
    elif is_offsets(following) and last_number(checkpoint / "commits") == number + 1:
        _replace(file, following.read_text(encoding="utf-8"))
    else:
        _put_aside(file)


def _header(checkpoint: Path, number: int) -> str:
    """Return the settings and times that Spark records of a batch: those of an earlier batch, with the current time."""
    known = header_before(checkpoint, number) or {"batchWatermarkMs": 0, "conf": {}}
    return json.dumps({**known, "batchTimestampMs": time.time_ns() // 1_000_000})


def _batch(note: Path, checkpoint: Path, query: str) -> BatchRef:
    """Return the batch that a ledger belongs to, by the name of its directory and by the checkpoint."""
    known = checkpoint_id(checkpoint)
    number = int(note.parent.name.removeprefix(f"{known}-").partition("-")[0])
    return BatchRef(query, f"model.{query}", known, number, batch_offsets(checkpoint, number))


def _replace(file: Path, text: str) -> None:
    """Replace a file in one step. The old one is kept as `.damaged`; its checksum is deleted."""
    staged = file.with_name(f".{file.name}.new")
    staged.write_text(text, encoding="utf-8")
    _put_aside(file)
    staged.replace(file)


def _put_aside(file: Path) -> None:
    if file.is_file():
        file.replace(file.with_name(f".{file.name}.damaged"))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
