"""Files in a directory or an object store, as a source and as a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import AliasChoices, BeforeValidator, Field, PrivateAttr, model_validator

from penstock.batch import BatchRef, PartRead
from penstock.clients.files import hadoop_batches, uri
from penstock.clients.files.batch_directory import publish, remove_batches
from penstock.clients.files.csv_columns import check_flat_columns
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
from penstock.clients.files.schema_inference import (
    RENAMING,
    check_columns,
    columns_from_header,
    infer_columns,
    read_columns,
    write_columns,
)
from penstock.clients.files.text_rows import (
    LINE,
    TEXT_FORMATS,
    decode_dead_letters,
    drop_undecodable,
    number_lines,
    read_rows,
    read_whole_files,
    reader_name,
    reader_options,
    reader_schema,
    row_origin,
)
from penstock.clients.files.uri import FileLocation
from penstock.clients.jvm.maven import Package
from penstock.clients.jvm.packages import AVRO
from penstock.clients.kafka.data_formats import Schema
from penstock.config import Duration, FrozenModel
from penstock.connectors.contract import ERROR, NO_SERVICE, ORIGIN, Sink, Source
from penstock.connectors.node import Parallelism
from penstock.errors import ServiceError
from penstock.row_columns import OP, ORDER
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.columns import Column as SqlColumn
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NOTES: Final = "columns.json"


def _format(value: object) -> object:
    return "json" if value in ("ndjson", "jsonl") else value


FileFormat = Annotated[
    Literal["parquet", "json", "csv", "avro"],
    BeforeValidator(_format, json_schema_input_type=Literal["parquet", "json", "ndjson", "jsonl", "csv", "avro"]),
]


class Bounded(FrozenModel):
    """Read what is there when the run starts, then end."""

    type: Literal["bounded"]


class Continuous(FrozenModel):
    """Go on reading files as they arrive."""

    type: Literal["continuous"]
    poll_interval: Duration = 5000
    """How often to look for new files."""


class _FileFields(FrozenModel):
    path: FileLocation
    """A directory, or for a source also a file: a path, or an address that begins with `s3://`, `s3a://`, `gs://`,
    `hdfs://` or `file://`. A relative path starts at the pipeline's own directory."""
    format: FileFormat
    """`parquet`, `json` (one object a line; also `ndjson`, `jsonl`), `csv` (with a header line) or `avro`."""

    def with_root(self, root: Path) -> Self:
        return self.model_copy(update={"path": uri.resolve_location(self.path, root)})

    @classmethod
    def packages_for(cls, config: Mapping[str, Any]) -> tuple[Package, ...]:
        return (*uri.packages(str(config["path"])), *(AVRO if config["format"] == "avro" else ()))

    @classmethod
    def is_machine_local(cls, config: Mapping[str, Any]) -> bool:
        return uri.local_path(str(config["path"])) is not None


class _FileLayout(NamedTuple):
    """What the files are like: their columns, and how Spark is to look for them."""

    columns: StructType
    options: Mapping[str, str]
    keys: frozenset[str] = frozenset()
    """The columns that are named by directories."""
    in_files: StructType | None = None
    """The columns of files that have more of them than are read."""


class FileSource(_FileFields, Source):
    """Reads the files below a directory. Their columns are found when the run starts."""

    type: Literal["file"] = "file"
    located_by = ("path",)
    own_labels: ClassVar = frozenset({"path"})
    loses_order = True
    has_files = True
    renaming = RENAMING
    schema_: Schema | None = Field(None, alias="schema", validation_alias=AliasChoices("schema", "columns"))
    """The columns of JSON and CSV files that are read, and their types, such as `int64`, `string`, `decimal128(20,4)`,
    or of SQL. Lines that do not fit become dead letters. Found in the files when left out."""
    mode: Bounded | Continuous = Field(Continuous(type="continuous"), discriminator="type")
    """`{type: bounded}` or `{type: continuous, poll_interval: 5s}`."""
    _found: _FileLayout | None = PrivateAttr(None)
    _wanted: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """Columns and their types, for lines of text, whose values may be of several."""
    _notes: Path | None = PrivateAttr(None)
    """The columns that the last run has found."""

    @classmethod
    def is_elsewhere(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """A directory inside another one has the same files, and each of them is known by its whole path."""
        old, new = (str(said["path"]).rstrip("/") + "/" for said in (before, after))
        return not (old.startswith(new) or new.startswith(old))

    @model_validator(mode="after")
    def _schema_goes_with_text(self) -> Self:
        if self.schema_ is not None and self.format not in TEXT_FORMATS:
            raise ValueError("`schema` is only supported with format: json or csv; other files have types of their own")
        return self

    @property
    def bounded(self) -> bool:
        return isinstance(self.mode, Bounded)

    @property
    def has_records(self) -> bool:
        """Lines of text are records."""
        return self.format in TEXT_FORMATS

    @property
    def poll_ms(self) -> int:
        return self.mode.poll_interval if isinstance(self.mode, Continuous) else 200

    def with_columns(self, columns: Columns) -> Self:
        found = self.model_copy()
        found._wanted = {
            column.name: column.type for column in columns if column.type is not None and column.name != OP
        }
        return found

    def with_declared(self, columns: Columns) -> Self:
        """Lines of text are read as these columns, unless it has a schema of its own."""
        types = {column.name: column.type for column in columns if column.type is not None}
        if self.schema_ is not None or not self.has_records or len(types) < len(columns):
            return self.with_columns(columns)
        return self.model_copy(update={"schema_": types})

    def with_directory(self, directory: Path) -> Self:
        found = self.model_copy()
        found._notes = directory / _NOTES
        return found

    def freeze(self, spark: SparkSession, *, again: bool) -> Self:
        fixed = self.model_copy()
        fixed._found = self._find_layout(spark)
        if self._notes is None or not self.has_records:
            return fixed
        if again and (columns := read_columns(self._notes)) is not None:
            fixed._found = fixed._found._replace(columns=columns)
        else:
            write_columns(self._notes, fixed._found.columns)
        return fixed

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        found = self._found or self._find_layout(spark)
        reader = spark.readStream.name(name).format(reader_name(self._form)).schema(self._schema(found))
        return self._rows(reader.options(**STREAM_OPTIONS, **found.options).load(escape_glob(self.path)), found)

    def reread(
        self, spark: SparkSession, name: str, parts: Mapping[str, PartRead], *, ordered: bool = False
    ) -> DataFrame | None:
        part = parts.get(name)
        if part is None or not part.files:
            return None
        from pyspark.sql import functions as f

        found = self._found or self._find_layout(spark)
        if self.has_records:
            read_whole_files(spark)
        reader = spark.read.format(reader_name(self._form)).schema(self._schema(found))
        table = reader.options(**found.options, basePath=self._base(spark)).load(list(map(address_to_path, part.files)))
        file, came = f.col("_metadata.file_path"), f.col("_metadata.file_modification_time")
        kept = {ORIGIN: row_origin(self._form, found.in_files or found.columns)}
        if ordered:
            place = (f.unix_micros(came), file, f.col("_metadata.file_block_start"), f.monotonically_increasing_id())
            kept |= dict(zip(ORDER, place, strict=True))
        return self._rows(number_lines(table, self._form), found, kept)

    def reread_all(self, spark: SparkSession, name: str) -> DataFrame | None:
        local, root = uri.local_path(self.path), self.path.rstrip("/")
        names = self._names(spark, self._form)
        if local is None:
            files = tuple(f"{root}/{found}" if found else root for found in names)
        else:
            files = tuple((local / found).absolute().as_uri() for found in names)
        return self.reread(spark, name, {name: PartRead(files)})

    def decode_records(self, records: DataFrame) -> DataFrame | None:
        """Dead letters hold lines of JSON or CSV as they were, or rows as JSON."""
        found = self._found or self._find_layout(records.sparkSession)
        return decode_dead_letters(records, self._form, found.columns, found.in_files)

    def peek(self, spark: SparkSession) -> DataFrame:
        found = self._found or self._find_layout(spark)
        table = spark.read.format(reader_name(self._form)).schema(self._schema(found)).options(**found.options)
        return drop_undecodable(self._rows(table.load(escape_glob(self.path)), found))

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
            raise self._no_files_error()

    def _rows(self, table: DataFrame, found: _FileLayout, kept: Mapping[str, Column] | None = None) -> DataFrame:
        """The rows of the files, each an insert unless it says otherwise, with what is wrong with a line."""
        from pyspark.sql import functions as f

        rows = read_rows(table, self._form, found.columns, kept, found.keys, found.in_files)
        if OP in found.columns.names:
            rows = rows.withColumn(OP, f.coalesce(f.col(OP), f.lit("i")))
        return rows if self.has_records else rows.drop(ERROR)

    @property
    def _form(self) -> Format:
        return FORMATS[self.format]

    def _schema(self, found: _FileLayout) -> StructType:
        return reader_schema(self._form, found.in_files or found.columns, found.keys)

    def _find_layout(self, spark: SparkSession) -> _FileLayout:
        """Directories named `key=value` become columns; any others are just looked into."""
        chosen = FORMATS[self.format]
        names = self._names(spark, chosen)
        if not names:
            raise self._no_files_error()
        within = {name: "=" in name.rpartition("/")[0] for name in names}
        if len(set(within.values())) > 1:
            loose = next(name for name, partitioned in within.items() if not partitioned)
            text = f"some files at path {self.path} stand in `key=value` directories, and `{loose}` does not"
            raise ServiceError("schema-unknown", text, hint="give them a path, and a source, of their own")
        alone = names == [""]
        options = {
            "pathGlobFilter": escape_glob(self.path.rstrip("/").rpartition("/")[2]) if alone else chosen.glob,
            "recursiveFileLookup": "false" if all(within.values()) else "true",
        }
        root = self.path.rstrip("/")
        files = [escape_glob(f"{root}/{name}" if name else root) for name in names]
        looking = {**options, **chosen.read_options, "basePath": self._base(spark)}
        if self.schema_ is not None:
            return self._declared_layout(spark, self.schema_, names, files, {**options, **reader_options(chosen)})
        columns = infer_columns(spark, chosen, escape_glob(self.path), files, looking, self._wanted)
        # Spark reads no lines of text without a column of theirs
        keys = {part.partition("=")[0] for name in names for part in name.split("/")[:-1] if self.has_records}
        check_columns(columns, self.path, (LINE,), keys)
        return _FileLayout(columns, {**options, **reader_options(chosen)}, frozenset(keys.intersection(columns.names)))

    def _declared_layout(
        self,
        spark: SparkSession,
        schema: Mapping[str, str],
        names: Sequence[str],
        files: Sequence[str],
        options: Mapping[str, str],
    ) -> _FileLayout:
        """The columns that are declared, and those that a header has beside them."""
        from pyspark.sql.types import StructType

        declared = StructType.fromDDL(
            ", ".join(f"{quote_spark_identifier(name)} {kind}" for name, kind in schema.items())
        )
        assert isinstance(declared, StructType)
        keys = {part.partition("=")[0] for name in names for part in name.split("/")[:-1]}
        check_columns(declared, self.path, (LINE,), keys)
        in_files = None
        if self.format == "csv":
            in_files = columns_from_header(spark, self.path, files[0], declared, keys)
        return _FileLayout(declared, options, frozenset(keys.intersection(declared.names)), in_files)

    def _names(self, spark: SparkSession, chosen: Format) -> list[str]:
        """The files, by their paths below the source's own; that itself is the empty one."""
        path = uri.local_path(self.path)
        if path is not None:
            return ["" if file == path else str(file.relative_to(path)) for file in files_under(path, chosen)]
        return hadoop_batches.files_under(spark, self.path, chosen)

    def _base(self, spark: SparkSession) -> str:
        """The directory from which on names of directories may be columns."""
        path = uri.local_path(self.path)
        if path is not None:
            return str(path.parent if path.is_file() else path)
        return self.path.rpartition("/")[0] if hadoop_batches.is_file(spark, self.path) else self.path

    def _no_files_error(self) -> ServiceError:
        text = f"no files matching format {self.format} found at path {self.path}"
        return ServiceError("schema-unknown", text, hint="its columns are read from the first file, so put one there")


class FileSink(_FileFields, Sink):
    """Writes each batch as one directory of files, below the path."""

    type: Literal["file"] = "file"
    located_by = ("path",)
    own_labels: ClassVar = frozenset({"path"})
    waives: ClassVar = NO_SERVICE
    delivery = "exactly once: a replayed batch is recognised by its directory and not written again"
    inert: ClassVar = {"batch_size": Sink.inert["batch_size"]}

    parallelism: Parallelism | None = None
    """How many tasks write a batch at most, each a file. Default: one for each part of it."""

    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        path, chosen = uri.local_path(self.path), FORMATS[self.format]
        if self.format == "csv":
            batch = check_flat_columns(batch)
        rows = batch if self.parallelism is None else batch.coalesce(self.parallelism)
        return publish(path, ref, rows, chosen) if path else hadoop_batches.publish(self.path, ref, rows, chosen, {})

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return "the batches in it are deleted" if cls.is_machine_local(config) else None

    def empty(self) -> None:
        path = uri.local_path(self.path)
        assert path is not None
        remove_batches(path)
