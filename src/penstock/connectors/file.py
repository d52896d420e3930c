"""Files in a directory or an object store, as a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from penstock.batch import PartRead
from penstock.clients.files import text_rows, uri
from penstock.clients.files.formats import (
    FORMATS,
    STREAM_OPTIONS,
    Format,
    address_to_path,
    escape_glob,
    files_under,
    known_columns,
    read_stamps,
)
from penstock.clients.files.schema_inference import RENAMING, read_columns, write_columns
from penstock.clients.kafka.data_formats import Schema
from penstock.config import Duration, FrozenModel
from penstock.connectors.contract import ERROR, ORIGIN, ReadRequest, RecordSource, Snapshot, SourceCapabilities
from penstock.connectors.file_fields import FileFields
from penstock.connectors.file_layout import FileLayout, base_path, file_names, find_layout, no_files_error
from penstock.row_columns import OP, ORDER
from penstock.spark_functions import f
from penstock.sql.types.columns import Column as SqlColumn
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NOTES: Final = "columns.json"


class Bounded(FrozenModel):
    """Read the files that exist when the run starts, then end."""

    type: Literal["bounded"]


class Continuous(FrozenModel):
    """Continue reading files as they arrive."""

    type: Literal["continuous"]
    poll_interval: Duration = 5000
    """The interval between checks for new files."""


class FileSource(FileFields, RecordSource):
    """Reads the files below a directory. Their columns are determined when the run starts."""

    type: Literal["file"] = "file"
    located_by = ("path",)
    own_labels: ClassVar = frozenset({"path"})
    schema_: Schema | None = Field(None, alias="schema", validation_alias=AliasChoices("schema", "columns"))
    """The columns of JSON and CSV files to read, and their types, such as `int64`, `string`, `decimal128(20,4)`, or SQL
    types. Lines that do not fit become dead letters. Default: the columns are inferred from the files."""
    mode: Bounded | Continuous = Field(Continuous(type="continuous"), discriminator="type")
    """`{type: bounded}` or `{type: continuous, poll_interval: 5s}`."""

    @classmethod
    def is_elsewhere(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether neither directory contains the other. Otherwise they share files, which have the same full paths."""
        old, new = (str(said["path"]).rstrip("/") + "/" for said in (before, after))
        return not (old.startswith(new) or new.startswith(old))

    @model_validator(mode="after")
    def _schema_goes_with_text(self) -> Self:
        if self.schema_ is not None and self.format not in text_rows.TEXT_FORMATS:
            raise ValueError("`schema` is only supported with format: json or csv; other files have types of their own")
        return self

    @property
    def capabilities(self) -> SourceCapabilities:
        bounded = isinstance(self.mode, Bounded)
        return SourceCapabilities(
            bounded=bounded,
            ends_as_job=bounded,
            has_records=self._has_records,
            has_files=True,
            loses_order=True,
            poll_ms=200 if isinstance(self.mode, Bounded) else self.mode.poll_interval,
            rename_hint=RENAMING,
        )

    @property
    def _has_records(self) -> bool:
        """Whether rows are decoded from lines of text, which are records."""
        return self.format in text_rows.TEXT_FORMATS

    def take_snapshot(self, spark: SparkSession, request: ReadRequest, *, again: bool) -> Snapshot:
        """Determine the columns of the files. Those of text files are stored, so that a retried batch has the same."""
        found = find_layout(spark, self, request)
        if request.directory is None or not self._has_records:
            return found
        notes = request.directory / _NOTES
        if again and (columns := read_columns(notes)) is not None:
            return replace(found, columns=columns)
        write_columns(notes, found.columns)
        return found

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        found = self._layout(spark, request)
        reader = spark.readStream.name(request.name).format(text_rows.reader_name(self._form))
        reader = reader.schema(self._schema(found))
        return self._rows(reader.options(**STREAM_OPTIONS, **found.options).load(escape_glob(self.path)), found)

    def reread(
        self, spark: SparkSession, request: ReadRequest, parts: Mapping[str, PartRead] | None
    ) -> DataFrame | None:
        files = self._present_files(spark) if parts is None else parts.get(request.name, PartRead()).files
        if not files:
            return None
        found = self._layout(spark, request)
        if self._has_records:
            text_rows.read_whole_files(spark)
        reader = spark.read.format(text_rows.reader_name(self._form)).schema(self._schema(found))
        options = {**found.options, "basePath": base_path(spark, self.path)}
        table = reader.options(**options).load(list(map(address_to_path, files)))
        file, came = f.col("_metadata.file_path"), f.col("_metadata.file_modification_time")
        kept = {ORIGIN: text_rows.row_origin(self._form, found.in_files or found.columns)}
        if request.ordered:
            place = (f.unix_micros(came), file, f.col("_metadata.file_block_start"), f.monotonically_increasing_id())
            kept |= dict(zip(ORDER, place, strict=True))
        return self._rows(text_rows.number_lines(table, self._form), found, kept)

    def _present_files(self, spark: SparkSession) -> tuple[str, ...]:
        local, root = uri.local_path(self.path), self.path.rstrip("/")
        names = file_names(spark, self.path, self._form)
        if local is None:
            return tuple(f"{root}/{found}" if found else root for found in names)
        return tuple((local / found).absolute().as_uri() for found in names)

    def decode_records(self, records: DataFrame, request: ReadRequest) -> DataFrame:
        """Decode dead letters, which hold the original lines of JSON or CSV, or rows as JSON."""
        found = self._layout(records.sparkSession, request)
        return text_rows.decode_dead_letters(records, self._form, found.columns, found.in_files)

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        found = self._layout(spark, request)
        reader = spark.read.format(text_rows.reader_name(self._form)).schema(self._schema(found))
        table = reader.options(**found.options).load(escape_glob(self.path))
        return text_rows.drop_undecodable(self._rows(table, found))

    def file_stamps(self) -> Mapping[str, tuple[int, int]] | None:
        path = uri.local_path(self.path)
        return None if path is None else read_stamps(files_under(path, self._form))

    def known_columns(self) -> Columns | None:
        if self.schema_ is not None:
            return tuple(SqlColumn(name, kind) for name, kind in self.schema_.items())
        path = uri.local_path(self.path)
        return None if path is None else known_columns(path, FORMATS[self.format])

    def check(self) -> None:
        path = uri.local_path(self.path)
        if path is not None and next(files_under(path, FORMATS[self.format]), None) is None:
            raise no_files_error(self.path, self.format)

    def _rows(self, table: DataFrame, found: FileLayout, kept: Mapping[str, Column] | None = None) -> DataFrame:
        """Decode the rows of the files, with the fault of each line. A row without an operation is an insert."""
        rows = text_rows.read_rows(table, self._form, found.columns, kept, found.keys, found.in_files)
        if OP in found.columns.names:
            rows = rows.withColumn(OP, f.coalesce(f.col(OP), f.lit("i")))
        return rows if self._has_records else rows.drop(ERROR)

    @property
    def _form(self) -> Format:
        return FORMATS[self.format]

    def _schema(self, found: FileLayout) -> StructType:
        return text_rows.reader_schema(self._form, found.in_files or found.columns, found.keys)

    def _layout(self, spark: SparkSession, request: ReadRequest) -> FileLayout:
        return request.snapshot if isinstance(request.snapshot, FileLayout) else find_layout(spark, self, request)
