"""What a checkpoint directory says about itself."""

import json
from pathlib import Path


def checkpoint_id(checkpoint: Path) -> str:
    """The id that Spark gave the checkpoint when it began; another one after a rebuild."""
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])


def batch_offsets(checkpoint: Path, batch_id: int) -> tuple[str, ...]:
    """How far each input is read by this batch: the lines of the offset log after its header."""
    lines = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
    return tuple(lines[2:])


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
