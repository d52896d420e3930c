"""The contract of every kernel: state and new rows in, state and output out. Nothing here knows Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

StateTables: TypeAlias = Mapping[str, pa.Table]
"""The state of a bucket of keys, by the name of the table. An empty mapping is a bucket that was never seen."""


@dataclass(frozen=True, slots=True)
class Clock:
    """`now_ms` is when the batch began; `watermark_ms` how far event time has come, if the query has any."""

    now_ms: int
    watermark_ms: int | None = None


@dataclass(frozen=True, slots=True)
class KernelResult:
    """The result of a batch. `wake_ms` is the event time at which the first waiting rows are due, if there are any."""

    state: StateTables
    output: pa.Table
    late: int = 0
    wake_ms: int | None = None


class Kernel(Protocol):
    """An operator over rows of known schemas. It can be pickled, and keeps nothing between batches."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that its state is made of."""

    @property
    def output(self) -> pa.Schema:
        """The schema of the output."""

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        """Process the new rows of each input, which may be empty. Rows have no order."""
