"""What a checkpoint directory says about itself."""

import hashlib
import json
from pathlib import Path


def checkpoint_id(checkpoint: Path) -> str:
    """The id that Spark gave the checkpoint when it began; another one after a rebuild."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def batch_offsets(checkpoint: Path, batch_id: int) -> tuple[str, ...]:
    """How far each input is read by this batch: the lines of the offset log after its header.

    A file reader only counts its own batches there, so the files of the batch are added as a checksum.
    """
    lines = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return tuple(line + _files_read(checkpoint, line) for line in lines[2:])


def _files_read(checkpoint: Path, offset: str) -> str:
    name, _, position = offset.partition(":")
    number = json.loads(position).get("logOffset") if position.startswith("{") else None
    log = checkpoint / "sources" / name
    entries = next((p for p in (log / str(number), log / f"{number}.compact") if p.is_file()), None)
    if entries is None:
        return ""
    files = [json.loads(line) for line in entries.read_text(encoding="utf-8").splitlines()[1:]]
    paths = sorted(file["path"] for file in files if file["batchId"] == number)
    return f" {len(paths)} files {hashlib.sha256(chr(10).join(paths).encode()).hexdigest()[:16]}"


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
