"""The contract of every kernel: state and new rows in, state and output out. Kernels do not depend on Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

StateTables: TypeAlias = Mapping[str, pa.Table]
"""The state of a bucket of keys: tables by name. An empty mapping is a bucket without any state yet."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The start of the batch (`now_ms`), and the watermark of the query (`watermark_ms`) if it has one."""

    now_ms: int
    watermark_ms: int | None = None


@dataclass(frozen=True, slots=True)
class KernelResult:
    """The result of a batch. `wake_ms` is the event time at which the first waiting rows are due, if any rows wait."""

    state: StateTables
    output: pa.Table
    late: int = 0
    wake_ms: int | None = None


class Kernel(Protocol):
    """An operator over rows of known schemas. A kernel can be pickled and keeps nothing between batches."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its state tables."""

    @property
    def output(self) -> pa.Schema:
        """The schema of its output."""

    def process_batch(self, state: StateTables, inputs: Sequence[pa.Table], clock: Clock) -> KernelResult:
        """Process the new rows of each input, which may be empty. Rows have no order."""
