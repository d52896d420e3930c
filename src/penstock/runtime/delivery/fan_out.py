"""Fan-out: several inputs as one stream, and a batch that is computed once for several outputs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

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
    stored = batch.localCheckpoint(eager=False)
    try:
        yield stored
    finally:
        release_checkpoint(stored)


def fan_out_stream(query: QuerySpec, streams: Mapping[str, DataFrame]) -> DataFrame:
    """Return one stream with the rows of all inputs that some step uses."""
    conditions = query.pushdown.conditions
    filtered = {v: filter_rows(rows, conditions[v]) if v in conditions else rows for v, rows in streams.items()}
    return union_streams(filtered)


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
    return reduce(DataFrame.union, frames)


def split_streams(batch: DataFrame, views: Sequence[str], *added: str) -> dict[str, DataFrame]:
    """Undo `union_streams`; `added` are columns that were added to the union since."""
    if len(views) == 1:
        return {views[0]: batch}
    parts = [batch.where(f.col("which") == place) for place in range(len(views))]
    return {
        view: part.select(f"in_{place}.*", *added) for place, (view, part) in enumerate(zip(views, parts, strict=True))
    }
