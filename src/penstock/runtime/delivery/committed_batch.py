"""Spark's report of a committed batch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.runtime.checkpoint.state_stats import OperatorCounts
from penstock.runtime.query.stateful import metric_view


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed batch. `starts` and `ends` are offsets of its readers, `observed` are metrics by name."""

    batch_id: int
    began_ms: int
    batch_ms: int
    rows_in: int
    rows_out: int
    rows_per_second: float
    starts: tuple[Any, ...]
    ends: tuple[Any, ...]
    observed: Mapping[str, Mapping[str, Any]]
    operators: tuple[OperatorCounts, ...]
    dropped: int
    """The number of rows that Spark's operators dropped as late."""

    @classmethod
    def from_json(cls, text: str) -> "CommittedBatch":
        progress = json.loads(text)
        operators = progress.get("stateOperators", [])
        sources = progress.get("sources", [])
        return cls(
            batch_id=progress["batchId"],
            began_ms=int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000),
            batch_ms=progress["batchDuration"],
            rows_in=progress["numInputRows"],
            rows_out=max(0, progress["sink"].get("numOutputRows", 0)),
            rows_per_second=progress.get("processedRowsPerSecond", 0.0),
            starts=tuple(source["startOffset"] for source in sources),
            ends=tuple(source["endOffset"] for source in sources),
            observed=progress.get("observedMetrics", {}),
            operators=tuple(OperatorCounts(o["numRowsTotal"], o["memoryUsedBytes"]) for o in operators),
            dropped=sum(o["numRowsDroppedByWatermark"] for o in operators),
        )

    @property
    def late(self) -> int:
        """The number of late rows: those that Spark's operators dropped, and those that our operators dropped."""
        return self.dropped + sum(row["late"] or 0 for row in self._operator_counts.values())

    @property
    def cells(self) -> dict[str, dict[str, dict[str, int]]]:
        """The rows in every cell of our operators that the batch touched, by view, cell and table."""
        return {
            view: {cell: rows for entry in json.loads(row["kept"]) for cell, rows in entry.items()}
            for view, row in self._operator_counts.items()
        }

    @property
    def _operator_counts(self) -> dict[str, Mapping[str, Any]]:
        """The counts of our operators, by view."""
        counts = ((metric_view(name), row) for name, row in self.observed.items())
        return {view: row for view, row in counts if view is not None}
