"""The layout of a source's files: their columns, and the options with which Spark lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.clients.files import hadoop_batches, uri
from penstock.clients.files.formats import FORMATS, Format, escape_glob, files_under
from penstock.clients.files.schema_inference import check_columns, columns_from_header, infer_columns
from penstock.clients.files.text_rows import LINE, TEXT_FORMATS, reader_options
from penstock.connectors.contract import ReadRequest, Snapshot
from penstock.errors import ServiceError
from penstock.row_columns import OP
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from penstock.connectors.file import FileSource


@dataclass(frozen=True, slots=True)
class FileLayout(Snapshot):
    """The columns of the files of a source, and the reader options to find the files."""

    columns: StructType
    options: Mapping[str, str]
    keys: frozenset[str] = frozenset()
    """The partition columns, whose values are in the names of directories."""
    in_files: StructType | None = None
    """All columns of the files, if only some of them are read."""


def find_layout(spark: SparkSession, source: FileSource, request: ReadRequest) -> FileLayout:
    """Determine the columns of the files. Directories named `key=value` become columns; others are only searched."""
    path, chosen, has_records = source.path, FORMATS[source.format], source.format in TEXT_FORMATS
    names = file_names(spark, path, chosen)
    if not names:
        raise no_files_error(path, source.format)
    within = {name: "=" in name.rpartition("/")[0] for name in names}
    if len(set(within.values())) > 1:
        loose = next(name for name, partitioned in within.items() if not partitioned)
        text = f"some files at path {path} stand in `key=value` directories, and `{loose}` does not"
        raise ServiceError("schema-unknown", text, hint="read them by a source of their own")
    alone, root = names == [""], path.rstrip("/")
    options = {
        "pathGlobFilter": escape_glob(root.rpartition("/")[2]) if alone else chosen.glob,
        "recursiveFileLookup": "false" if all(within.values()) else "true",
    }
    files = [escape_glob(f"{root}/{name}" if name else root) for name in names]
    keys = {part.partition("=")[0] for name in names for part in name.split("/")[:-1]}
    requested = {c.name: c.type for c in request.columns or () if c.type is not None}
    declared = source.schema_
    if declared is None and request.declared and has_records and len(requested) == len(request.columns or ()):
        declared = requested
    if declared is not None:
        return _declared_layout(spark, source, declared, keys, files[0], {**options, **reader_options(chosen)})
    looking = {**options, **chosen.read_options, "basePath": base_path(spark, path)}
    wanted = {name: kind for name, kind in requested.items() if name != OP}
    columns = infer_columns(spark, chosen, escape_glob(path), files, looking, wanted)
    keys = keys if has_records else set()  # Spark cannot read lines without a text column
    check_columns(columns, path, (LINE,), keys)
    return FileLayout(columns, {**options, **reader_options(chosen)}, frozenset(keys.intersection(columns.names)))


def _declared_layout(
    spark: SparkSession,
    source: FileSource,
    schema: Mapping[str, str],
    keys: set[str],
    first: str,
    options: Mapping[str, str],
) -> FileLayout:
    """Return the layout for declared columns, with further columns that the header of CSV files has."""
    from pyspark.sql.types import StructType

    declared = StructType.fromDDL(", ".join(f"{quote_spark_identifier(name)} {kind}" for name, kind in schema.items()))
    assert isinstance(declared, StructType)
    check_columns(declared, source.path, (LINE,), keys)
    in_files = columns_from_header(spark, source.path, first, declared, keys) if source.format == "csv" else None
    return FileLayout(declared, options, frozenset(keys.intersection(declared.names)), in_files)


def file_names(spark: SparkSession, path: str, form: Format) -> Sequence[str]:
    """Return the files by their paths relative to the source's; the path is empty if the source is one file."""
    local = uri.local_path(path)
    if local is not None:
        return ["" if file == local else str(file.relative_to(local)) for file in files_under(local, form)]
    return hadoop_batches.files_under(spark, path, form)


def base_path(spark: SparkSession, path: str) -> str:
    """Return the directory below which names of directories may be partition columns."""
    local = uri.local_path(path)
    if local is not None:
        return str(local.parent if local.is_file() else local)
    return path.rpartition("/")[0] if hadoop_batches.is_file(spark, path) else path


def no_files_error(path: str, file_format: str) -> ServiceError:
    text = f"no files matching format {file_format} found at path {path}"
    return ServiceError("schema-unknown", text, hint="its columns are read from the first file, so put one there")
