"""Statistics of a query's state, from its checkpoint: what Spark has written there, and a note of our own.

Spark records which operators there are, but not how many rows they keep. So after every batch that is noted in a small
file. Nothing here needs Spark.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from penstock.plan.deployed.place import last_number
from penstock.runtime.checkpoint.layout import batch_header, read_note, write_note

NOTE: Final = "operators.json"
"""The note after a batch. It is inside the checkpoint, so that it is moved and deleted with it."""
KEYED: Final = "transformWithStateInPySparkExec"
"""Spark's name for our operators."""

_BACKENDS: Final = {"HDFSBackedStateStoreProvider": "hashmap", "RocksDBStateStoreProvider": "rocksdb"}


@dataclass(frozen=True, slots=True)
class OperatorCounts:
    """The rows and bytes of an operator at the end of a batch. Spark numbers operators from the last one of a query."""

    rows: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorState:
    """A stateful operator. `keys` are the key columns of its state, if Spark records them.

    `rows` and `memory_bytes` are None if nothing is noted. A cell of one of our operators counts as one row here.
    """

    id: int
    name: str
    partitions: int
    bytes: int
    keys: tuple[str, ...] = ()
    rows: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class QueryState:
    """The state after `batch`, the last committed one. Rows were counted after `noted_batch`.

    `kept` has the rows that our operators keep, by view and table.
    """

    batch: int
    watermark_ms: int | None
    backend: str
    operators: tuple[OperatorState, ...]
    noted_batch: int | None
    kept: Mapping[str, Mapping[str, int]]


class StateNotes:
    """Notes the size of a query's state after each batch."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        note = _read(checkpoint)
        self._cells: dict[str, dict[str, dict[str, int]]] = note.get("cells", {})

    def add(
        self, batch: int, operators: Iterable[OperatorCounts], cells: Mapping[str, Mapping[str, Mapping[str, int]]]
    ) -> None:
        """Note the state after a batch. `cells` has the rows of each table by view and cell, for touched cells."""
        counted = [asdict(operator) for operator in operators]
        if not counted:
            return
        for view, touched in cells.items():
            self._cells.setdefault(view, {}).update({cell: dict(tables) for cell, tables in touched.items()})
        with suppress(OSError):  # the note is not needed for correct rows
            write_note(self._checkpoint, NOTE, {"batch": batch, "operators": counted, "cells": self._cells})


def query_state(checkpoint: Path) -> QueryState | None:
    """Return the state statistics of a checkpoint; None before its first batch is committed."""
    batch = last_number(checkpoint / "commits")
    if batch is None:
        return None
    header = batch_header(checkpoint, batch)
    commit = json.loads((checkpoint / "commits" / str(batch)).read_text(encoding="utf-8").splitlines()[1])
    watermark = max(int(header["batchWatermarkMs"]), int(commit.get("nextBatchWatermarkMs", 0)))
    provider = str(header["conf"].get("spark.sql.streaming.stateStore.providerClass", "")).rpartition(".")[2]
    note = _read(checkpoint)
    counted = [OperatorCounts(**operator) for operator in note.get("operators", ())]
    folders = sorted((p for p in (checkpoint / "state").glob("*") if p.name.isdigit()), key=lambda p: int(p.name))
    return QueryState(
        batch,
        watermark or None,
        _BACKENDS.get(provider, provider),
        tuple(_operator(folder, counted) for folder in folders),
        note.get("batch"),
        {view: _sums(cells.values()) for view, cells in note.get("cells", {}).items()},
    )


def _operator(folder: Path, counted: list[OperatorCounts]) -> OperatorState:
    number = int(folder.name)
    about = _metadata(folder)
    stores = about["stateStoreInfo"]
    found = counted[number] if number < len(counted) else None
    return OperatorState(
        number,
        str(about["operatorInfo"]["operatorName"]),
        int(stores[0]["numPartitions"]),
        sum(_size(path) for path in folder.rglob("*") if path.suffix != ".crc"),
        _keys(folder),
        None if found is None else found.rows,
        None if found is None else found.memory_bytes,
    )


def _metadata(folder: Path) -> Any:
    """Return what Spark has recorded about an operator: in one file, or in one for each change."""
    newer = folder / "_metadata" / "v2"
    last = last_number(newer)
    file = folder / "_metadata" / "metadata" if last is None else newer / str(last)
    return json.loads(file.read_text(encoding="utf-8").splitlines()[1])


def _keys(folder: Path) -> tuple[str, ...]:
    """Return the key columns of an aggregate, from the binary file with its schema."""
    file = folder / "0" / "_metadata" / "schema"
    if not file.is_file():
        return ()
    text = file.read_bytes().decode("utf-8", errors="replace")
    start = text.find("{")
    if start < 0:
        return ()
    schema, _ = json.JSONDecoder().raw_decode(text, start)
    return tuple(field["name"] for field in schema["fields"])


def _sums(cells: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for tables in cells:
        for name, rows in tables.items():
            found[name] = found.get(name, 0) + rows
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0  # Spark may delete files meanwhile


def _read(checkpoint: Path) -> Any:
    with suppress(OSError, ValueError):
        return read_note(checkpoint, NOTE) or {}
    return {}
