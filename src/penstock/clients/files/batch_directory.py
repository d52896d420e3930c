"""Batches as directories: each is published completely or not at all, and a replayed batch is recognised.

A batch is written into a hidden directory and then renamed into place, which a local file system does in one step. The
directory contains a note of the batch's input (`_batch.json`; readers ignore names that start with `_`), so the ledger
is stored with the rows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.batch import BatchRef
from penstock.clients.files import parquet
from penstock.clients.files.formats import Format
from penstock.errors import QueryFailed, ServiceError
from penstock.spark_functions import f

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOTE: Final = "_batch.json"
STAGING: Final = "_staging"


def observe_count(batch: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """Return the batch, and a function for the number of its rows in the first action, without a second pass."""
    from pyspark.sql import Observation

    observation = Observation()
    return batch.observe(observation, f.count(f.lit(1)).alias("rows")), lambda: int(observation.get["rows"])


def publish(root: Path, ref: BatchRef, batch: DataFrame, file_format: Format) -> int:
    """Write the batch as a directory below `root`, unless an earlier attempt of the same batch has written it.

    Returns the number of rows written. A batch without rows leaves nothing behind. A batch that was written before is
    still processed: operators with state must reach the same state.
    """
    final = root / ref.directory
    staging = root / STAGING / ref.directory
    try:
        if final.exists():
            refuse_other_input((final / NOTE).read_text(encoding="utf-8"), ref, final)
            batch.write.format("noop").mode("append").save()
            return 0
        shutil.rmtree(staging, ignore_errors=True)
        staging.parent.mkdir(parents=True, exist_ok=True)
        rows = _write(batch, staging, file_format)
        if rows == 0:
            shutil.rmtree(staging)
            return 0
        (staging / NOTE).write_text(json.dumps(asdict(ref)), encoding="utf-8")
        os.replace(staging, final)
        return rows
    except OSError as error:
        raise ServiceError("not-writable", f"cannot write to {root}: {error.strerror or error}") from error


def remove_batches(root: Path) -> None:
    """Delete every batch below `root`, and the remains of unfinished ones. Other files are kept."""
    try:
        for note in root.glob(f"*/{NOTE}"):
            gone = root / STAGING / note.parent.name
            gone.parent.mkdir(exist_ok=True)
            shutil.rmtree(gone, ignore_errors=True)
            os.replace(note.parent, gone)  # in one step: nobody reads an incomplete batch
        shutil.rmtree(root / STAGING, ignore_errors=True)
    except OSError as error:
        raise ServiceError("not-writable", f"cannot empty {root}: {error.strerror or error}") from error


def _write(batch: DataFrame, directory: Path, file_format: Format) -> int:
    """Write the files and return the number of their rows. Parquet files contain it, which costs Spark nothing."""
    if file_format.name == "parquet":
        _save(batch, directory, file_format)
        return parquet.row_count(directory)
    rows, count = observe_count(batch)
    _save(rows, directory, file_format)
    return count()


def _save(rows: DataFrame, directory: Path, file_format: Format) -> None:
    rows.write.format(file_format.name).options(**file_format.write_options).save(str(directory))


def refuse_other_input(note: str, ref: BatchRef, final: Path | str) -> None:
    """Refuse a batch whose directory has a note of the same batch number with other offsets."""
    try:
        offsets = json.loads(note)["offsets"]
    except (ValueError, KeyError, TypeError):
        text = f"{final}/{NOTE} is unreadable: it describes the input of batch {ref.batch_id} of `{ref.query}`"
        raise QueryFailed("batch-note-damaged", text, hint="`penstock doctor --repair` writes it again") from None
    if offsets != list(ref.offsets):
        text = f"batch {ref.batch_id} of `{ref.query}` was written before from other input ({final})"
        hint = f"its checkpoint was restored from an older copy: `penstock run --allow-rebuild {ref.query}`"
        raise QueryFailed("batch-conflict", text, hint=hint)
