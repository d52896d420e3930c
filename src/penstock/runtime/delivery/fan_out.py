"""Fan-out: several inputs as one stream, and a batch that is computed once for several outputs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.manifest.model import QuerySpec
from penstock.runtime.query.input_rows import filter_rows
from penstock.spark_internals.frames import release_checkpoint
from penstock.spark_internals.jvm import is_local


@contextmanager
def persist_batch(batch: DataFrame) -> Iterator[DataFrame]:
    """Keep a batch until the block ends. It is computed when it is first read.

    In local mode rows are kept unconverted: Spark's columnar cache takes longer than computing most of them. On a
    cluster the cache is used, because unconverted rows cannot be recomputed after the loss of a machine.
    """
    if not is_local(batch.sparkSession.sparkContext):
        try:
            yield batch.persist()
        finally:
            batch.unpersist()
        return
    kept = batch.localCheckpoint(eager=False)
    try:
        yield kept
    finally:
        release_checkpoint(kept)


def fan_out_stream(query: QuerySpec, streams: Mapping[str, DataFrame]) -> DataFrame:
    """Return one stream with the rows of all inputs that some step uses."""
    return union_streams({view: _prefilter_rows(query, view, stream) for view, stream in streams.items()})


def union_streams(streams: Mapping[str, DataFrame]) -> DataFrame:
    """Union the rows of all streams, with a column for each, null in rows of others. A single stream is not changed."""
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
    condition = query.pushdown.conditions.get(view)
    return rows if condition is None else filter_rows(rows, condition)


def split_streams(batch: DataFrame, views: Sequence[str], *beside: str) -> dict[str, DataFrame]:
    """Undo `union_streams`; `beside` are columns that were added to the union since."""
    if len(views) == 1:
        return {views[0]: batch}
    return {
        view: batch.where(f.col("which") == place).select(f"in_{place}.*", *beside) for place, view in enumerate(views)
    }
