"""Files in a directory or an object store, as a sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from penstock.batch import BatchRef
from penstock.clients.files import hadoop_batches, uri
from penstock.clients.files.batch_directory import publish, remove_batches
from penstock.clients.files.formats import FORMATS
from penstock.connectors.contract import NO_SERVICE, KeepRows, Sink, WriteResult
from penstock.connectors.file_fields import FileFields
from penstock.connectors.node import Parallelism
from penstock.errors import QueryFailed
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FileSink(FileFields, Sink):
    """Writes each batch as one directory of files below the path."""

    type: Literal["file"] = "file"
    located_by = ("path",)
    own_labels: ClassVar = frozenset({"path"})
    waives: ClassVar = NO_SERVICE
    delivery = "exactly once: a replayed batch is recognised by its directory and not written again"
    inert: ClassVar = {"batch_size": Sink.inert["batch_size"]}

    parallelism: Parallelism | None = None
    """The maximum number of tasks that write a batch, one file each. Default: one for each partition of the batch."""

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        path, chosen = uri.local_path(self.path), FORMATS[self.format]
        if self.format == "csv":
            batch = _check_flat_columns(batch)
        rows = batch if self.parallelism is None else batch.coalesce(self.parallelism)
        if path is not None:
            return WriteResult(publish(path, ref, rows, chosen))
        return WriteResult(hadoop_batches.publish(self.path, ref, rows, chosen, {}))

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return "the batches in it are deleted" if cls.is_machine_local(config) else None

    def empty(self) -> None:
        path = uri.local_path(self.path)
        assert path is not None
        remove_batches(path)


def _check_flat_columns(rows: DataFrame) -> DataFrame:
    """Return rows for CSV, with columns that are always null as strings. QueryFailed if a column is nested."""
    from pyspark.sql.types import ArrayType, MapType, NullType, StructType

    for field in rows.schema:
        if isinstance(field.dataType, ArrayType | MapType | StructType):
            text = f"CSV cannot have the column `{field.name}`: it is {field.dataType.simpleString()}"
            raise QueryFailed("column-type", text, hint="write JSON or Parquet, or leave it out in a transform")
    void = {field.name for field in rows.schema if isinstance(field.dataType, NullType)}
    if not void:
        return rows
    texts = {name: f.col(quote_spark_identifier(name)).cast("string").alias(name) for name in void}
    return rows.select(*(texts.get(name, f.col(quote_spark_identifier(name))) for name in rows.columns))
