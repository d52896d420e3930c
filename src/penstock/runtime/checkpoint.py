"""What a checkpoint directory says about itself."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchTime:
    """When a batch began, and how far event time had come, in milliseconds."""

    began_ms: int
    watermark_ms: int


def checkpoint_id(checkpoint: Path) -> str:
    """The id that Spark gave the checkpoint when it began; another one after a rebuild."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def batch_offsets(checkpoint: Path, batch_id: int) -> tuple[str, ...]:
    """How far each input is read by this batch: the lines of the offset log after its header.

    A file reader only counts its own batches there, so the files of the batch are added as a checksum.
    """
    return tuple(line + _files_read(checkpoint, line) for line in _offsets(checkpoint, batch_id))


def _files_read(checkpoint: Path, offset: str) -> str:
    name, number = _position(offset)
    paths = _logged(checkpoint / "sources" / name, number)
    if paths is None:
        return ""
    return f" {len(paths)} files {hashlib.sha256(chr(10).join(paths).encode()).hexdigest()[:16]}"


def batch_files(checkpoint: Path, batch_id: int) -> dict[str, list[str]]:
    """The files that a batch reads, as addresses, by the name of their reader."""
    before = dict(map(_position, _offsets(checkpoint, batch_id - 1)))
    found: dict[str, list[str]] = {}
    for name, number in map(_position, _offsets(checkpoint, batch_id)):
        first = before.get(name)
        numbers = range((-1 if first is None else first) + 1, number + 1) if number is not None else ()
        found[name] = [path for n in numbers for path in _logged(checkpoint / "sources" / name, n) or ()]
    return found


def batch_header(checkpoint: Path, batch_id: int) -> Any:
    """What Spark notes of a batch beside its offsets: times and settings."""
    return json.loads((checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()[1])


def last_number(log: Path) -> int | None:
    """The newest entry of a log: a directory of files that are called by numbers."""
    return max((int(path.name) for path in log.glob("*") if path.name.isdigit()), default=None)


def batch_time(checkpoint: Path, batch_id: int) -> BatchTime:
    header = batch_header(checkpoint, batch_id)
    return BatchTime(int(header["batchTimestampMs"]), int(header["batchWatermarkMs"]))


def reached_ms(checkpoint: Path) -> int | None:
    """How far event time had come by the last batch; None if there was none, or it had not."""
    begun = last_number(checkpoint / "offsets")
    return None if begun is None else batch_time(checkpoint, begun).watermark_ms or None


def unfinished_batch(checkpoint: Path) -> int | None:
    """The batch that was begun and not committed, so that it will be done again."""
    begun, done = last_number(checkpoint / "offsets"), last_number(checkpoint / "commits")
    return begun if begun is not None and begun != done else None


def _offsets(checkpoint: Path, batch_id: int) -> list[str]:
    log = checkpoint / "offsets" / str(batch_id)
    return log.read_text(encoding="utf-8").splitlines()[2:] if log.is_file() else []


def _position(offset: str) -> tuple[str, int | None]:
    """The name of a reader and the number of its last batch, if it is a reader of files."""
    name, _, position = offset.partition(":")
    return name, json.loads(position).get("logOffset") if position.startswith("{") else None


def _logged(log: Path, number: int | None) -> list[str] | None:
    entries = next((p for p in (log / str(number), log / f"{number}.compact") if p.is_file()), None)
    if entries is None:
        return None
    files = [json.loads(line) for line in entries.read_text(encoding="utf-8").splitlines()[1:]]
    return sorted(file["path"] for file in files if file["batchId"] == number)


def state_partitions(checkpoint: Path) -> int | None:
    """How many partitions the state was begun with. They can never change, and Spark does not always remember them."""
    operator = checkpoint / "state" / "0"
    found = sum(path.name.isdigit() for path in operator.iterdir()) if operator.is_dir() else 0
    return found or None


def set_aside(checkpoint: Path) -> None:
    """Move a checkpoint away so that a new one can begin. It is kept: a rebuild may have been a mistake."""
    if not checkpoint.exists():
        return
    marker = checkpoint_id(checkpoint)[:8] if (checkpoint / "metadata").is_file() else "unfinished"
    target = checkpoint.with_name(f"{checkpoint.name}@{marker}")
    checkpoint.rename(target)
