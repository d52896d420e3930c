"""A checkpoint directory: offsets, batches, times, state partitions, and notes of our own beside them."""

import hashlib
import json
import shutil
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.batch import PartRead
from penstock.plan.deployed.place import last_number
from penstock.plan.deployed.state_origin import read_origin


@dataclass(frozen=True, slots=True)
class BatchTime:
    """When a batch began, and the watermark at that time, in milliseconds."""

    began_ms: int
    watermark_ms: int


def checkpoint_id(checkpoint: Path) -> str:
    """Return the id that Spark gave the checkpoint when it began; a rebuild has another one."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def batch_offsets(checkpoint: Path, batch_id: int) -> tuple[str, ...]:
    """Return the end offset of each input in a batch: the lines of the offset log after its header.

    A file reader only counts its own batches there, so the files of the batch are added as a checksum.
    """
    return tuple(line + _files_read(checkpoint, line) for line in _offsets(checkpoint, batch_id))


def _files_read(checkpoint: Path, offset: str) -> str:
    name, place = _split_offset(offset)
    paths = _logged_files(checkpoint / "sources" / name, _log_number(place))
    if paths is None:
        return ""
    return f" {len(paths)} files {hashlib.sha256(chr(10).join(paths).encode()).hexdigest()[:16]}"


def batch_parts(checkpoint: Path, batch_id: int) -> dict[str, PartRead]:
    """Return what each reader reads in a batch, by the reader's name."""
    before = dict(map(_split_offset, _offsets(checkpoint, batch_id - 1)))
    after = dict(map(_split_offset, _offsets(checkpoint, batch_id)))
    return {name: _part(checkpoint / "sources" / name, before.get(name), place) for name, place in after.items()}


def _part(log: Path, before: str | None, after: str) -> PartRead:
    number, first = _log_number(after), _log_number(before)
    if number is None:
        return PartRead(before=before or _read_first_offset(log), after=after)
    numbers = range((-1 if first is None else first) + 1, number + 1)
    return PartRead(files=tuple(path for n in numbers for path in _logged_files(log, n) or ()))


def start_offset(checkpoint: Path, name: str) -> str | None:
    """Return the first offset of a reader. Readers of files have none."""
    return _read_first_offset(checkpoint / "sources" / name)


def _read_first_offset(log: Path) -> str | None:
    first = log / "0"
    lines = first.read_text(encoding="utf-8").splitlines() if first.is_file() else []
    return lines[-1] if lines and lines[-1].startswith("{") else None


def last_offsets(checkpoint: Path) -> list[str]:
    """Return the offset of each reader after the last committed batch, as the reader writes it."""
    done = last_number(checkpoint / "commits")
    return [] if done is None else [place for _, place in map(_split_offset, _offsets(checkpoint, done))]


def reader_offset(checkpoint: Path, name: str) -> str | None:
    """Return the offset of a reader after the last committed batch."""
    done = last_number(checkpoint / "commits")
    return None if done is None else dict(map(_split_offset, _offsets(checkpoint, done))).get(name)


def batch_header(checkpoint: Path, batch_id: int) -> Any:
    """Return what Spark records of a batch in addition to its offsets: times and settings."""
    return json.loads((checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()[1])


def batch_time(checkpoint: Path, batch_id: int) -> BatchTime:
    header = batch_header(checkpoint, batch_id)
    return BatchTime(int(header["batchTimestampMs"]), int(header["batchWatermarkMs"]))


def last_batch_time(checkpoint: Path) -> BatchTime:
    """Return the time of the last committed batch, which must exist."""
    return batch_time(checkpoint, last_number(checkpoint / "commits") or 0)


def reached_ms(checkpoint: Path) -> int | None:
    """Return the watermark after the last batch; None if there is none."""
    begun = last_number(checkpoint / "offsets")
    return None if begun is None else batch_time(checkpoint, begun).watermark_ms or None


def unfinished_batch(checkpoint: Path) -> int | None:
    """Return the batch that was begun and not committed, and will be retried."""
    begun, done = last_number(checkpoint / "offsets"), last_number(checkpoint / "commits")
    return begun if begun is not None and begun != done else None


def _offsets(checkpoint: Path, batch_id: int) -> list[str]:
    log = checkpoint / "offsets" / str(batch_id)
    return log.read_text(encoding="utf-8").splitlines()[2:] if log.is_file() else []


def _split_offset(offset: str) -> tuple[str, str]:
    """Return the name of a reader and its offset, as the reader writes it."""
    name, _, place = offset.partition(":")
    return name, place


def _log_number(place: str | None) -> int | None:
    """Return the number of a reader's last batch, if it is a reader of files."""
    number = json.loads(place).get("logOffset") if place is not None and place.startswith("{") else None
    return number if isinstance(number, int) else None


def _logged_files(log: Path, number: int | None) -> list[str] | None:
    entries = next((p for p in (log / str(number), log / f"{number}.compact") if p.is_file()), None)
    if entries is None:
        return None
    files = [json.loads(line) for line in entries.read_text(encoding="utf-8").splitlines()[1:]]
    return sorted(file["path"] for file in files if file["batchId"] == number)


def state_partitions(checkpoint: Path) -> int | None:
    """Return the number of partitions that the state was begun with; None before its first batch.

    It can never change. If it was not recorded, a committed batch has a directory for each partition; one that was not
    committed may have fewer.
    """
    if last_number(checkpoint / "offsets") is None:
        return None
    origin = read_origin(checkpoint)
    if origin is not None:
        return origin.partitions
    operator = checkpoint / "state" / "0"
    if last_number(checkpoint / "commits") is None:
        return _planned_partitions(operator)
    found = sum(path.name.isdigit() for path in operator.iterdir()) if operator.is_dir() else 0
    return found or None


def _planned_partitions(operator: Path) -> int | None:
    """Return the number that Spark recorded when it planned the first batch, if it did."""
    for file in (operator / "_metadata" / "metadata", *sorted((operator / "_metadata" / "v2").glob("[0-9]*"))):
        with suppress(OSError, ValueError, LookupError):
            stores = json.loads(file.read_text(encoding="utf-8").splitlines()[1])["stateStoreInfo"]
            return int(stores[0]["numPartitions"])
    return None


def read_note(checkpoint: Path, name: str) -> Any:
    """Return a note in a checkpoint; None if there is none."""
    note = checkpoint / name
    return json.loads(note.read_text(encoding="utf-8")) if note.is_file() else None


def write_note(checkpoint: Path, name: str, document: Any) -> None:
    """Write a note in one step: a crash leaves the old one or the new one."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    staged = checkpoint / f".{name}.{threading.get_ident()}"
    staged.write_text(json.dumps(document), encoding="utf-8")
    staged.replace(checkpoint / name)


def discard(checkpoint: Path) -> None:
    """Delete a checkpoint that is not resumed."""
    if checkpoint.exists():
        shutil.rmtree(checkpoint)


def set_aside(checkpoint: Path) -> None:
    """Move a checkpoint away so that a new one can begin. It is kept: a rebuild may have been a mistake."""
    if not checkpoint.exists():
        return
    try:
        marker = checkpoint_id(checkpoint)[:8] if (checkpoint / "metadata").is_file() else "unfinished"
    except (ValueError, KeyError, TypeError):
        marker = "damaged"
    target = checkpoint.with_name(f"{checkpoint.name}@{marker}")
    discard(target)  # of the same start, which committed nothing
    checkpoint.rename(target)
