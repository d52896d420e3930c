"""The rows of a batch for several readers: worked out once, and kept until the last one has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame


@contextmanager
def shared(batch: DataFrame) -> Iterator[DataFrame]:
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
