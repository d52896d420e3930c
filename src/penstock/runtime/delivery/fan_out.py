"""What several read of one stream, or one of several: put together, worked out once, kept until the last one has it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.manifest.model import QuerySpec, Step
from penstock.runtime.query.input_rows import filter_rows
from penstock.sql.pushdown.shared_predicate import shared_condition


@contextmanager
def persist_batch(batch: DataFrame) -> Iterator[DataFrame]:
    """The batch, which is worked out when the first reader comes.

    On this machine rows are kept as they are. To keep them by columns, as Spark does otherwise, takes longer than to
    work most of them out. But rows that are kept as they are cannot be worked out again when a machine is lost.
    """
    context: Any = batch.sparkSession.sparkContext
    if not context._jsc.sc().isLocal():
        try:
            yield batch.persist()
        finally:
            batch.unpersist()
        return
    kept = batch.localCheckpoint(eager=False)
    try:
        yield kept
    finally:
        kept._jdf.queryExecution().logical().rdd().unpersist(False)


def fan_out_stream(query: QuerySpec, streams: Mapping[str, DataFrame]) -> DataFrame:
    """One stream that carries the rows of all. Rows that nobody wants are left out."""
    return union_streams({view: _prefilter_rows(query, view, stream) for view, stream in streams.items()})


def union_streams(streams: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of all, with a column for each stream, filled in its own rows only. Of a single one, its rows."""
    if len(streams) == 1:
        return next(iter(streams.values()))
    frames = []
    for place, stream in enumerate(streams.values()):
        cells = [
            (f.struct("*") if other == place else f.lit(None).cast(frame.schema)).alias(f"in_{other}")
            for other, frame in enumerate(streams.values())
        ]
        frames.append(stream.select(f.lit(place).alias("which"), *cells))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


def _prefilter_rows(query: QuerySpec, view: str, rows: DataFrame) -> DataFrame:
    steps = [step for step in query.steps if isinstance(step, Step)]
    if any(output.view == view for output in query.outputs) or any(step.parameters for step in steps):
        return rows
    condition = shared_condition(view, [step.sql for step in steps])
    return rows if condition is None else filter_rows(rows, condition)


def split_streams(batch: DataFrame, views: Sequence[str], *beside: str) -> dict[str, DataFrame]:
    """The rows of `united`, taken apart again; `beside` are columns that they got since."""
    if len(views) == 1:
        return {views[0]: batch}
    return {
        view: batch.where(f.col("which") == place).select(f"in_{place}.*", *beside) for place, view in enumerate(views)
    }
