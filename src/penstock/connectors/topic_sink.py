"""Embedded topics, as a sink: models write Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from penstock.batch import BatchRef
from penstock.clients.files.batch_directory import publish, remove_batches
from penstock.clients.files.formats import FORMATS
from penstock.connectors.contract import NO_SERVICE, KeepRows, Sink, SinkCapabilities, WriteResult
from penstock.connectors.topic_fields import TopicFields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TopicSink(TopicFields, Sink):
    """Appends each batch to an embedded topic as one directory of Parquet files."""

    type: Literal["topic"] = "topic"
    located_by = ("topic", "directory")
    own_labels: ClassVar = frozenset({"topic"})
    on_this_machine = True
    waives: ClassVar = NO_SERVICE
    delivery = "exactly once: a replayed batch is recognised by its directory and not written again"

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(takes_int256=True)

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        return WriteResult(publish(self.path(), ref, batch, FORMATS["parquet"]))

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return "what queries have written is deleted; files that were put there stay"

    def empty(self) -> None:
        remove_batches(self.path())
