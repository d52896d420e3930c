"""Embedded topics: a topic is a directory, so a project runs with nothing but Python and Java.

People drop JSON Lines, CSV or Parquet files into it; models write Parquet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from penstock.clients import parquet
from penstock.clients.batches import BatchRef, PartRead, publish, remove_batches
from penstock.clients.formats import (
    FORMATS,
    JSON_OPTIONS,
    STREAM_OPTIONS,
    Format,
    files_under,
    from_address,
    known_columns,
    literal,
)
from penstock.clients.topic_names import TopicName
from penstock.config import Frozen
from penstock.connectors.contract import NO_SERVICE, Sink, Source
from penstock.errors import ServiceError
from penstock.keyed.operators import ORDER
from penstock.sql.dialects import quoted
from penstock.sql.types import Column, Columns

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

TOPICS: Final = Path(".penstock") / "topics"


class TopicColumn(Frozen):
    """A column of the rows in the topic."""

    name: str
    """The column's name."""
    type: str
    """Its Spark SQL type."""


class _Topic(Frozen):
    topic: TopicName
    """The topic's name: letters, digits, `.`, `_` and `-`."""
    directory: Path | None = None
    """Where its files are; `.penstock/topics/<topic>` when left out."""

    def path(self) -> Path:
        return self.directory or TOPICS / self.topic

    def rooted_at(self, root: Path) -> Self:
        return self.model_copy(update={"directory": root / self.path()})


class TopicSource(_Topic, Source):
    """Reads the files of an embedded topic as they arrive."""

    type: Literal["topic"] = "topic"
    located_by = ("topic", "directory")
    own_labels: ClassVar = frozenset({"topic"})
    on_this_machine = True
    loses_order = True
    columns: tuple[TopicColumn, ...] = ()
    """The columns of a row; found in the files when left out."""
    formats: tuple[Literal["json", "csv", "parquet"], ...] = ("json", "csv", "parquet")
    """The kinds of files to look for."""

    @property
    def poll_ms(self) -> int:
        return 200

    def with_columns(self, columns: Columns) -> Self:
        known = tuple(TopicColumn(name=c.name, type=c.type) for c in columns if c.type is not None)
        return self.model_copy(update={"columns": known})

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        return reduce(lambda one, other: one.unionByName(other), self._streams(spark, name))

    def read_in_order(self, spark: SparkSession, name: str) -> DataFrame:
        """In the order of files, as they came, and of rows in a file."""
        return reduce(lambda one, other: one.unionByName(other), map(_in_order, self._streams(spark, name)))

    def _streams(self, spark: SparkSession, name: str) -> list[DataFrame]:
        self._make_directory()
        schema = self._schema(spark)
        return [
            spark.readStream.name(f"{name}_{f.name}")
            .format(f.name)
            .schema(schema)
            .options(
                recursiveFileLookup="true",
                pathGlobFilter=f.glob,
                **STREAM_OPTIONS,
                **f.read_options,
            )
            .load(literal(self.path()))
            for f in self._formats()
        ]

    def read_again(
        self, spark: SparkSession, name: str, parts: Mapping[str, PartRead], *, ordered: bool = False
    ) -> DataFrame | None:
        from pyspark.sql import functions as f

        schema = self._schema(spark)
        tables = [
            spark.read.format(form.name)
            .schema(schema)
            .options(**form.read_options)
            .load(list(map(from_address, part.files)))
            for form in self._formats()
            if (part := parts.get(f"{name}_{form.name}")) is not None and part.files
        ]
        if ordered:
            tables = [_in_order(table, f.monotonically_increasing_id()) for table in tables]
        return reduce(lambda one, other: one.unionByName(other), tables) if tables else None

    def rows_of(self, records: DataFrame) -> DataFrame | None:
        """Records are kept as JSON here, whatever files they stood in."""
        from pyspark.sql import functions as f

        schema = self._schema(records.sparkSession)
        options = {**JSON_OPTIONS, **FORMATS["json"].read_options}
        return records.select(f.from_json(f.col("value").cast("string"), schema, options).alias("row")).select("row.*")

    def peek(self, spark: SparkSession) -> DataFrame:
        schema = self._schema(spark)
        tables = [_table(spark, self.path(), f, schema) for f in self._present()]
        return (
            reduce(lambda one, other: one.unionByName(other), tables) if tables else spark.createDataFrame([], schema)
        )

    def first_rows(self, limit: int) -> list[dict[str, Any]] | None:
        """Models write Parquet, which pyarrow reads as well as Spark and much sooner."""
        if self.formats != ("parquet",):
            return None
        return parquet.first_rows(files_under(self.path(), FORMATS["parquet"]), limit)

    def known_columns(self) -> Columns | None:
        if self.columns:
            return tuple(Column(c.name, c.type) for c in self.columns)
        present = self._present()
        return known_columns(self.path(), present[0]) if len(present) == 1 else None

    def check(self) -> None:
        existing = next(p for p in (self.path(), *self.path().absolute().parents) if p.exists())
        if not existing.is_dir() or not os.access(existing, os.R_OK | os.W_OK):
            raise ServiceError("not-writable", f"{existing} cannot be written, and {self.path()} is to be below it")

    def _schema(self, spark: SparkSession) -> str:
        if self.columns:
            return ", ".join(f"{quoted(c.name)} {c.type}" for c in self.columns)
        for file_format in self._present():
            return _table(spark, self.path(), file_format, None).schema.toDDL()
        raise ServiceError(
            "schema-unknown",
            f"the topic `{self.topic}` has no columns declared and no files to find them in",
            hint=f"declare `columns` on its source, or put a file into {self.path()}",
        )

    def _formats(self) -> list[Format]:
        return [FORMATS[name] for name in self.formats]

    def _present(self) -> list[Format]:
        return [f for f in self._formats() if next(files_under(self.path(), f), None)]

    def _make_directory(self) -> None:
        try:
            self.path().mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError("not-writable", f"cannot make {self.path()}: {error.strerror}") from error


class TopicSink(_Topic, Sink):
    """Appends each batch to an embedded topic as one directory of Parquet files."""

    takes_wide = True
    type: Literal["topic"] = "topic"
    located_by = ("topic", "directory")
    own_labels: ClassVar = frozenset({"topic"})
    on_this_machine = True
    waives: ClassVar = NO_SERVICE
    delivery = "exactly once: a replayed batch is recognised by its directory and not written again"

    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        return publish(self.path(), ref, batch, FORMATS["parquet"])

    @classmethod
    def emptying(cls, config: Mapping[str, Any]) -> str | None:
        return "what queries have written is deleted; files that were put there stay"

    def empty(self) -> None:
        remove_batches(self.path())


def _in_order(rows: DataFrame, place: SparkColumn | None = None) -> DataFrame:
    """The rows with the columns of `ORDER`, by what Spark knows of their files, and their place there if it is told."""
    from pyspark.sql import functions as f

    came = f.unix_micros(f.col("_metadata.file_modification_time"))
    last = f.lit(0).cast("bigint") if place is None else place
    places = (came, f.col("_metadata.file_path"), f.col("_metadata.file_block_start"), last)
    return rows.withColumns(dict(zip(ORDER, places, strict=True)))


def _table(spark: SparkSession, path: Path, file_format: Format, schema: str | None) -> DataFrame:
    reader = spark.read.format(file_format.name).options(
        recursiveFileLookup="true",
        pathGlobFilter=file_format.glob,
        inferSchema="true",
        mergeSchema="true",
        **file_format.read_options,
    )
    return (reader.schema(schema) if schema else reader).load(literal(path))
