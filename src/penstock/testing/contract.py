"""The contract of a sink, as checks that any connector can be put through.

Each method below `rows` is one check: it writes with the sink and reads back with a function that the caller gives,
from the system itself and never from our own counters. It returns nothing and raises AssertionError. A check wants a
sink that has not written yet.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from penstock.clients.batches import BatchRef
from penstock.connectors.contract import Sink
from penstock.errors import QueryFailed

FIRST = BatchRef("contract", "sink.contract", "00000000-0000-0000-0000-000000000000", 0, ('numbers:{"rows":3}',))


@dataclass(frozen=True, slots=True)
class SinkContract:
    """A sink under test, and how to read back the `id`s it has written."""

    sink: Sink
    spark: SparkSession
    written_ids: Callable[[], list[int]]

    def rows(self, *ids: int) -> DataFrame:
        return self.spark.createDataFrame([(i, f"röw {i}", None) for i in ids], "id BIGINT, name STRING, note STRING")

    def writes_every_row(self) -> None:
        assert self.sink.write(self.rows(1, 2, 3), FIRST) == 3
        assert sorted(self.written_ids()) == [1, 2, 3]

    def an_empty_batch_leaves_nothing(self) -> None:
        assert self.sink.write(self.rows(), FIRST) == 0
        assert self.written_ids() == []

    def a_replayed_batch_leaves_no_duplicates(self) -> None:
        self.sink.write(self.rows(1, 2, 3), FIRST)
        assert self.sink.write(self.rows(1, 2, 3), FIRST) == 0
        assert sorted(self.written_ids()) == [1, 2, 3]

    def a_batch_of_the_same_number_from_other_input_is_refused(self) -> None:
        self.sink.write(self.rows(1), FIRST)
        try:
            self.sink.write(self.rows(2), replace(FIRST, offsets=('numbers:{"rows":9}',)))
        except QueryFailed as error:
            assert error.code == "batch-conflict"  # noqa: PT017 - pytest is not needed to use the contract
        else:
            raise AssertionError("it was written")
        assert self.written_ids() == [1]

    def a_new_checkpoint_writes_again(self) -> None:
        self.sink.write(self.rows(1), FIRST)
        self.sink.write(self.rows(2), replace(FIRST, checkpoint_id="11111111-1111-1111-1111-111111111111"))
        assert sorted(self.written_ids()) == [1, 2]
