"""Finds damaged files of a checkpoint before a query starts, without Spark.

Spark reads the last two entries of the offset log, the last one of the commit log, and the logs of file readers from
their last compact entry on. Older entries may be in any state.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from penstock.clients.files.batch_directory import NOTE
from penstock.errors import QueryFailed
from penstock.plan.deployed.place import last_number

DamageCode: TypeAlias = Literal[
    "checkpoint-metadata-damaged",
    "checkpoint-offsets-damaged",
    "checkpoint-offsets-missing",
    "checkpoint-commits-damaged",
    "checkpoint-sources-damaged",
    "checkpoint-note-damaged",
    "batch-note-damaged",
]
DAMAGES: Final[tuple[str, ...]] = get_args(DamageCode)
NOTHING_LOST: Final = "no rows are lost"
_FORGET: Final = "creates it again"
_FROM_LEDGER: Final = "restores it from the ledger of its output"
_NOTES: Final[Mapping[str, tuple[str, str, str | None]]] = {
    "topics.json": (
        "which topics it reads",
        f"{NOTHING_LOST}, but a topic that was deleted and created again is not detected",
        _FORGET,
    ),
    "looked-through.json": ("which records were scanned", "dead letters of the last batch may be missing", _FORGET),
    "phases.json": ("what it has read before its topics", "that information is lost", None),
    "schemas.json": ("which schemas the registry did not have", NOTHING_LOST, _FORGET),
    "begin.json": ("where the changes of its table begin", "that information is lost", None),
}
"""Penstock's own files in a checkpoint: content, what is lost without it, and the repair."""
_VERSION: Final = re.compile(r"v\d+")
_CHECKSUM: Final = re.compile(r" \d+ files [0-9a-f]+$")
"""The suffix of file offsets in a batch ledger."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged file. `lost` says what is lost with it, `repair` what `doctor --repair` does about it; None if it
    cannot be repaired."""

    code: DamageCode
    file: Path
    text: str
    lost: str
    repair: str | None = None

    def __str__(self) -> str:
        return f"{self.text}; {self.lost}"

    def failure(self, query: str) -> QueryFailed:
        rebuild = f"`--allow-rebuild {query}` starts over"
        hint = f"`penstock doctor --repair` {self.repair}; {rebuild}" if self.repair else rebuild
        return QueryFailed(self.code, f"the checkpoint of `{query}` is damaged: {self}", hint=hint)


def find_damage(checkpoint: Path, outputs: tuple[Path, ...] = ()) -> Damage | None:
    """The first damage that prevents a query from resuming. `outputs` are the directories of its batches."""
    return next(_damages(checkpoint, outputs), None)


def _damages(checkpoint: Path, outputs: tuple[Path, ...]) -> Iterator[Damage]:
    planned, committed = last_number(checkpoint / "offsets"), last_number(checkpoint / "commits")
    if planned is None and committed is None:
        begun = (checkpoint / "metadata").is_file()
        yield from _metadata(checkpoint, outputs) if begun else ()
        return
    yield from _metadata(checkpoint, outputs)
    yield from _offsets(checkpoint, planned, committed, outputs)
    if committed is not None:
        yield from _commits(checkpoint, committed)
    yield from _sources(checkpoint)
    yield from _own_notes(checkpoint)
    if planned is not None and planned != committed:
        yield from _notes(checkpoint, planned, outputs)


def _metadata(checkpoint: Path, outputs: tuple[Path, ...]) -> Iterator[Damage]:
    file = checkpoint / "metadata"
    found = _json(file)
    if isinstance(found, dict) and isinstance(found.get("id"), str):
        return
    planned, committed = last_number(checkpoint / "offsets"), last_number(checkpoint / "commits")
    is_in_ledger = ledger_id(checkpoint, outputs) is not None
    lost = f"batch {planned} is unfinished, and may be written twice"
    lost = NOTHING_LOST if is_in_ledger or planned == committed else lost
    repair = _FROM_LEDGER if is_in_ledger else "gives it a new id"
    yield _damage("checkpoint-metadata-damaged", file, "contained the checkpoint's id", lost, repair)


def _offsets(
    checkpoint: Path, planned: int | None, committed: int | None, outputs: tuple[Path, ...]
) -> Iterator[Damage]:
    last = max(number for number in (planned, committed) if number is not None)
    file = checkpoint / "offsets" / str(last)
    if not is_offsets(file):
        yield _last_offsets(checkpoint, last, committed, outputs)
    if planned and last > 0 and not is_offsets(before := checkpoint / "offsets" / str(last - 1)):
        if committed == last:
            content, repair = (
                f"contains the end offsets of batch {last - 1}",
                "restores it from the next batch, which is committed",
            )
            yield _damage(_offsets_code(before), before, content, NOTHING_LOST, repair)
        else:
            yield _last_offsets(checkpoint, last - 1, committed, outputs)


def _last_offsets(checkpoint: Path, number: int, committed: int | None, outputs: tuple[Path, ...]) -> Damage:
    """The damage of an entry of the offset log that Spark needs."""
    file = checkpoint / "offsets" / str(number)
    code, content = _offsets_code(file), f"contained the end offsets of batch {number}"
    lines = ledger_offsets(checkpoint, outputs, number)
    if lines is not None and (header_before(checkpoint, number) or not (checkpoint / "state").is_dir()):
        return _damage(code, file, content, NOTHING_LOST, _FROM_LEDGER)
    if committed is None or number > committed:
        lost = f"batch {number} was not committed, and {NOTHING_LOST}"
        return _damage(code, file, content, lost, "plans the batch again")
    return _damage(code, file, content, "how far its inputs were read is lost")


def _offsets_code(file: Path) -> Literal["checkpoint-offsets-damaged", "checkpoint-offsets-missing"]:
    return "checkpoint-offsets-damaged" if file.is_file() else "checkpoint-offsets-missing"


def _commits(checkpoint: Path, committed: int) -> Iterator[Damage]:
    file = checkpoint / "commits" / str(committed)
    lines = _lines(file)
    if len(lines) < 2 or not isinstance(_parse_json(lines[1]), dict):
        lost = f"{NOTHING_LOST}, but late rows may be accepted that would have been dropped"
        repair = "restores it with the watermark at which the batch began"
        yield _damage("checkpoint-commits-damaged", file, f"says that batch {committed} is committed", lost, repair)


def _sources(checkpoint: Path) -> Iterator[Damage]:
    """Check the logs of sources: the files of each batch, and the start offsets of topics."""
    root = checkpoint / "sources"
    for log in sorted(root.iterdir()) if root.is_dir() else ():
        entries = [path for path in log.iterdir() if path.name.removesuffix(".compact").isdigit()]
        compact = max((_number(path) for path in entries if path.suffix == ".compact"), default=-1)
        needed = [p for p in entries if _number(p) > compact or (p.suffix == ".compact" and _number(p) == compact)]
        for file in sorted(needed, key=_number):
            if not _is_source_log(file):
                content = f"says what `{log.name}` has read"
                yield _damage("checkpoint-sources-damaged", file, content, "that information is lost")


def _own_notes(checkpoint: Path) -> Iterator[Damage]:
    """Check Penstock's own files of the query and its readers."""
    for file in (*checkpoint.glob("*.json"), *checkpoint.glob("kept/*/*.json")):
        if file.name in _NOTES and not isinstance(_json(file), dict):
            content, lost, repair = _NOTES[file.name]
            yield _damage("checkpoint-note-damaged", file, f"says {content}", lost, repair)


def _notes(checkpoint: Path, number: int, outputs: tuple[Path, ...]) -> Iterator[Damage]:
    """Check the ledger entry of a batch that is written and not committed: the replayed batch is compared with it."""
    found = _json(checkpoint / "metadata")
    for root in outputs:
        for note in root.glob(f"{found['id']}-{number:012d}-*/{NOTE}"):
            if not isinstance(_json(note), dict):
                content = f"says what batch {number} was made from"
                yield _damage("batch-note-damaged", note, content, NOTHING_LOST, "restores it from the checkpoint")


def written_batches(outputs: tuple[Path, ...]) -> Iterator[dict[str, Any]]:
    """The ledger entries of written batches, the newest first."""
    notes = [note for root in outputs for note in root.glob(f"*/{NOTE}")]
    for note in sorted(notes, key=lambda path: path.parent.stat().st_mtime_ns, reverse=True):
        found = _json(note)
        if isinstance(found, dict):
            yield found


def ledger_id(checkpoint: Path, outputs: tuple[Path, ...]) -> str | None:
    """The id of a checkpoint from the ledger of an output. Checkpoints that were set aside have other ids."""
    ids = (str(note.get("checkpoint_id")) for note in written_batches(outputs))
    return next((own for own in ids if not checkpoint.with_name(f"{checkpoint.name}@{own[:8]}").exists()), None)


def ledger_offsets(checkpoint: Path, outputs: tuple[Path, ...], number: int) -> list[str] | None:
    """The end offsets of a batch from the ledger of an output: the lines of its entry in the offset log."""
    found = _json(checkpoint / "metadata")
    own = found.get("id") if isinstance(found, dict) else None
    batches = (note for note in written_batches(outputs) if note.get("checkpoint_id") == own)
    lines = next((note["offsets"] for note in batches if note.get("batch_id") == number), None)
    return None if lines is None else [_CHECKSUM.sub("", line) for line in lines]


def header_before(checkpoint: Path, number: int) -> dict[str, Any] | None:
    """The header of the newest readable entry of the offset log before a batch. It has the state settings."""
    older = sorted((int(p.name) for p in (checkpoint / "offsets").glob("*") if p.name.isdigit()), reverse=True)
    files = (checkpoint / "offsets" / str(one) for one in older if one < number)
    found = next((_parse_json(_lines(file)[1]) for file in files if is_offsets(file)), None)
    return found if isinstance(found, dict) else None


def is_offsets(file: Path) -> bool:
    """Whether a file is an entry of the offset log: a version, a header, and a place for each reader."""
    lines = _lines(file)
    if len(lines) < 2 or not isinstance(_parse_json(lines[1]), dict):
        return False
    return all(_is_place(line) for line in lines[2:])


def _is_source_log(file: Path) -> bool:
    """Whether an entry of a source log is readable: a version, and lines of JSON."""
    try:
        text = file.read_text(encoding="utf-8").lstrip("\x00")
    except (OSError, ValueError):
        return False
    lines = text.splitlines()
    if not _VERSION.fullmatch(lines[0] if lines else ""):
        return bool(text)
    some = (*lines[1:2], *lines[-1:]) if file.suffix == ".compact" else lines[1:]
    return all(_parse_json(line) is not None for line in some)


def _is_place(line: str) -> bool:
    return line == "-" or _parse_json(line) is not None or _parse_json(line.partition(":")[2]) is not None


def _number(path: Path) -> int:
    return int(path.name.removesuffix(".compact"))


def _damage(code: DamageCode, file: Path, content: str, lost: str, repair: str | None = None) -> Damage:
    empty = file.is_file() and file.stat().st_size == 0
    state = "empty" if empty else "unreadable" if file.is_file() else "missing"
    return Damage(code, file, f"{file} is {state}: it {content}", lost, repair)


def _lines(file: Path) -> list[str]:
    """The lines of a log entry, of which the first is the version; none if it is not a log entry."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    return lines if lines and _VERSION.fullmatch(lines[0]) else []


def _parse_json(text: str) -> Any:
    """The value of a JSON text; None if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _json(file: Path) -> Any:
    try:
        return _parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
