"""Embedded topics: a topic is a directory, so a project runs with nothing but Python and Java.

Users put JSON Lines, CSV or Parquet files into it; models write Parquet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from penstock.batch import PartRead
from penstock.clients.files import parquet, text_rows
from penstock.clients.files.formats import (
    FORMATS,
    STREAM_OPTIONS,
    Format,
    address_to_path,
    escape_glob,
    files_under,
    known_columns,
)
from penstock.clients.files.schema_inference import infer_columns
from penstock.config import FrozenModel
from penstock.connectors.contract import ERROR, ORIGIN, ReadRequest, RecordSource, SourceCapabilities
from penstock.connectors.topic_fields import TopicFields
from penstock.errors import ServiceError
from penstock.row_columns import OP, ORDER
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.columns import Column, Columns

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class TopicColumn(FrozenModel):
    """A column of the rows in the topic."""

    name: str
    """The column's name."""
    type: str
    """Its Spark SQL type."""


class TopicSource(TopicFields, RecordSource):
    """Reads the files of an embedded topic as they arrive."""

    type: Literal["topic"] = "topic"
    located_by = ("topic", "directory")
    own_labels: ClassVar = frozenset({"topic"})
    on_this_machine = True
    columns: tuple[TopicColumn, ...] = ()
    """The columns of a row. Default: inferred from the files."""
    formats: tuple[Literal["json", "csv", "parquet"], ...] = ("json", "csv", "parquet")
    """The file formats to look for."""
    operation: bool = False
    """Whether rows may have the column `_gs_op`, which marks deletes, even if no file has it yet."""

    @property
    def capabilities(self) -> SourceCapabilities:
        return SourceCapabilities(has_records=self._has_records, loses_order=True, poll_ms=200)

    @property
    def _has_records(self) -> bool:
        """Whether rows are decoded from lines of text, which are records. Models write Parquet, which is complete."""
        return not text_rows.TEXT_FORMATS.isdisjoint(self.formats)

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """Return the stream, in the order in which files arrived, and of rows in a file."""
        try:
            self.path().mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError("not-writable", f"cannot create {self.path()}: {error.strerror}") from error
        found, order = self._columns(spark, request), _order() if request.ordered else None
        tables = []
        for form in self._formats():
            columns = self._columns_in(form, found)
            reader = spark.readStream.name(f"{request.name}_{form.name}").format(text_rows.reader_name(form))
            options = {"recursiveFileLookup": "true", "pathGlobFilter": form.glob, **STREAM_OPTIONS}
            reader = reader.schema(text_rows.reader_schema(form, columns))
            reader = reader.options(**options, **text_rows.reader_options(form))
            tables.append(self._rows(reader.load(escape_glob(self.path())), form, columns, order))
        return self._union_tables(tables)

    def reread(
        self, spark: SparkSession, request: ReadRequest, parts: Mapping[str, PartRead] | None
    ) -> DataFrame | None:
        every = self._columns(spark, request)
        order = _order(f.monotonically_increasing_id()) if request.ordered else {}
        if self._has_records:
            text_rows.read_whole_files(spark)
        tables = []
        for form in self._formats():
            if parts is None:
                files = tuple(file.absolute().as_uri() for file in files_under(self.path(), form))
            else:
                files = parts.get(f"{request.name}_{form.name}", PartRead()).files
            if not files:
                continue
            columns = self._columns_in(form, every)
            reader = spark.read.format(text_rows.reader_name(form)).schema(text_rows.reader_schema(form, columns))
            table = reader.options(**text_rows.reader_options(form)).load(list(map(address_to_path, files)))
            own = {ORIGIN: text_rows.row_origin(form, columns, self._file())} if self._has_records else {}
            found = text_rows.number_lines(table, form) if own else table
            tables.append(self._rows(found, form, columns, {**own, **order}))
        return self._union_tables(tables) if tables else None

    def decode_records(self, records: DataFrame, request: ReadRequest) -> DataFrame:
        """Decode dead letters, which hold the original lines of JSON or CSV, or rows as JSON."""
        form = FORMATS["csv" if "csv" in self.formats else "json"]
        columns = self._columns_in(FORMATS["json"], self._columns(records.sparkSession, request))
        return text_rows.decode_dead_letters(records, form, columns)

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        found = self._columns(spark, request)
        tables = [
            self._rows(_table(spark, self.path(), form, text_rows.reader_schema(form, columns)), form, columns)
            for form in self._present_formats()
            for columns in [self._columns_in(form, found)]
        ]
        if not tables:
            return spark.createDataFrame([], found)
        return text_rows.drop_undecodable(self._union_tables(tables))

    def _rows(
        self, table: DataFrame, form: Format, columns: StructType, beside: Mapping[str, SparkColumn] | None = None
    ) -> DataFrame:
        rows = text_rows.read_rows(table, form, columns, beside)
        return rows if self._has_records else rows.drop(ERROR)

    def first_rows(self, limit: int) -> list[dict[str, Any]] | None:
        """Return the first rows of Parquet files, which pyarrow reads as well as Spark and much sooner."""
        if self.formats != ("parquet",):
            return None
        return parquet.first_rows(files_under(self.path(), FORMATS["parquet"]), limit)

    def known_columns(self) -> Columns | None:
        if self.columns:
            return tuple(Column(c.name, c.type) for c in self.columns)
        present = self._present_formats()
        return known_columns(self.path(), present[0]) if len(present) == 1 else None

    def check(self) -> None:
        existing = next(p for p in (self.path(), *self.path().absolute().parents) if p.exists())
        if not existing.is_dir() or not os.access(existing, os.R_OK | os.W_OK):
            raise ServiceError("not-writable", f"{existing} cannot be written, and {self.path()} is to be below it")

    def _file(self) -> SparkColumn:
        """Return the file of a row, as a path that begins with the name of the topic."""
        directory = re.escape(str(self.path().absolute()).lstrip("/"))
        return f.regexp_replace(text_rows.file_address(), f"^(file:)?/*{directory}", self.topic)

    def _columns(self, spark: SparkSession, request: ReadRequest) -> StructType:
        from pyspark.sql.types import StructType

        known = self.columns
        if request.columns is not None:
            known = tuple(TopicColumn(name=c.name, type=c.type) for c in request.columns if c.type is not None)
        if known:
            declared = StructType.fromDDL(", ".join(f"{quote_spark_identifier(c.name)} {c.type}" for c in known))
            assert isinstance(declared, StructType)
            return declared
        for form in self._present_formats():
            return self._infer_columns(spark, form)
        text = f"the topic `{self.topic}` has no columns declared and no files to find them in"
        hint = f"declare `columns` on its source, or put a file into {self.path()}"
        raise ServiceError("schema-unknown", text, hint=hint)

    def _columns_in(self, form: Format, columns: StructType) -> StructType:
        """Return the columns to look for in files of a format. CSV files have no operation unless it is declared."""
        from pyspark.sql.types import StringType, StructField, StructType

        if not self.operation or form.name == "csv" or OP in columns.names:
            return columns
        return StructType([*columns.fields, StructField(OP, StringType())])

    def _union_tables(self, tables: list[DataFrame]) -> DataFrame:
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=self.operation), tables)

    def _infer_columns(self, spark: SparkSession, form: Format) -> StructType:
        """Infer the columns of the files of one format."""
        if form.name not in text_rows.TEXT_FORMATS:
            return _table(spark, self.path(), form, None).schema
        options = {"recursiveFileLookup": "true", "pathGlobFilter": form.glob, **form.read_options}
        files = [escape_glob(file) for file in files_under(self.path(), form)]
        return infer_columns(spark, form, escape_glob(self.path()), files, options, {})

    def _formats(self) -> list[Format]:
        return [FORMATS[name] for name in self.formats]

    def _present_formats(self) -> list[Format]:
        return [form for form in self._formats() if next(files_under(self.path(), form), None)]


def _order(place: SparkColumn | None = None) -> dict[str, SparkColumn]:
    """Return the columns of `ORDER`, from Spark's file metadata, and the position of a row in its file if known."""
    came = f.unix_micros(f.col("_metadata.file_modification_time"))
    last = f.lit(0).cast("bigint") if place is None else place
    places = (came, f.col("_metadata.file_path"), f.col("_metadata.file_block_start"), last)
    return dict(zip(ORDER, places, strict=True))


def _table(spark: SparkSession, path: Path, form: Format, schema: StructType | None) -> DataFrame:
    options = {"recursiveFileLookup": "true", "pathGlobFilter": form.glob, "mergeSchema": "true"}
    reader = spark.read.format(text_rows.reader_name(form)).options(**options, **text_rows.reader_options(form))
    return (reader.schema(schema) if schema is not None else reader).load(escape_glob(path))
