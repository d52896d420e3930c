"""Infers the columns of files with Spark: those of all files together, even if files differ."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from penstock.clients.files.formats import FORMATS, Format
from penstock.clients.files.text_columns import csv_schema, json_schema
from penstock.clients.rows.reserved_columns import case_sensitive_session, duplicate_names_error, invalid_names_error
from penstock.errors import ServiceError
from penstock.row_columns import OP
from penstock.sql.types.columns import data_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.types import DataType, StructType

_WIDER: Final = {
    "tinyint": ("smallint", "int", "bigint", "double"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}
"""The types as which Spark can read a type of a file without loss."""
RENAMING: Final = "give it another name in the files"
"""The hint for a column whose name cannot be used."""


def infer_columns(
    spark: SparkSession,
    file_format: Format,
    root: str,
    files: Sequence[str],
    options: Mapping[str, str],
    wanted: Mapping[str, str],
) -> StructType:
    """Infer the columns of the files below `root`. Unreadable files are ignored; at least one must be readable.

    `wanted` has the types that columns should get, where the values of text files allow several.
    """
    from pyspark.sql.types import StructType

    lenient = {"inferSchema": "true", "ignoreCorruptFiles": "true", "mode": "DROPMALFORMED", "mergeSchema": "true"}
    if file_format.name in ("json", "csv"):  # in Parquet and Avro, Spark finds columns by name in either case
        spark = case_sensitive_session(spark)
    reader = spark.read.format(file_format.name).options(**{**options, **lenient})
    with _translate_duplicates(root):
        match file_format.name:
            case "avro":
                found = [one for file in files if (one := _file_schema(reader, file)) is not None]
                schema = reduce(widen_schemas, found) if found else None
            case "parquet":
                schema = _parquet_schema(reader, root, files)
            case "json":
                exact = any(data_type(kind).this is exp.DataType.Type.DECIMAL for kind in wanted.values())
                lines = spark.read.format("text").options(**{**options, **lenient}).load(root)
                own = json_schema(lines, {"prefersDecimal": str(exact).lower()}, root)
                keys = [field for field in lines.schema if field.name != "value"]
                named = {field.name for field in keys}
                schema = _apply_types(StructType([*(field for field in own if field.name not in named), *keys]), wanted)
            case "csv":
                schema = reader.load(root).schema
                plain = spark.read.format("csv").options(**{**options, **lenient, "inferSchema": "false"})
                if len(files) > 1 and plain.load(files[0]).columns != schema.names:
                    schema = reader.load(files[0]).schema  # Spark has used the header of another file
                _check_header(reader, schema.names, files[0])
                kinds = {name.lower(): data_type(kind).this for name, kind in wanted.items()}
                texts = [name for name, kind in kinds.items() if kind is exp.DataType.Type.TEXT]
                schema = _apply_types(csv_schema(reader, root, schema, texts), wanted)
    if schema is None or not schema.names:
        text = f"none of the files at path {root} can be read as {file_format.name}"
        raise ServiceError("schema-unknown", text, hint="put a complete file there: columns are inferred from files")
    for inner in _structs(schema):
        if wrong := duplicate_names_error(inner.names, f"a struct in files at path {root}", RENAMING):
            raise wrong
    return schema


def _structs(kind: DataType) -> Iterator[StructType]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    inside: list[DataType] = []
    match kind:
        case StructType():
            inside = [field.dataType for field in kind]
        case ArrayType():
            inside = [kind.elementType]
        case MapType():
            inside = [kind.keyType, kind.valueType]
    for inner in inside:
        if isinstance(inner, StructType):
            yield inner
        yield from _structs(inner)


@contextmanager
def _translate_duplicates(root: str) -> Iterator[None]:
    """Translate Spark's error for a duplicate column."""
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        if error.getCondition() != "COLUMN_ALREADY_EXISTS":
            raise
        twice = (error.getMessageParameters() or {})["columnName"]
        text = f"files at path {root} cannot have two columns {twice}, in whatever case"
        raise ServiceError("column-names", text, hint=RENAMING) from None


def check_columns(columns: StructType, path: str, taken: Collection[str], elsewhere: Collection[str]) -> None:
    """Raise an error if rows cannot have the columns of the files at a path.

    `taken` are reserved names; at least one column must not come from `elsewhere`, the names of directories.
    """
    if wrong := invalid_names_error(columns.names, f"files at path {path}", RENAMING, taken):
        raise wrong
    if set(elsewhere).issuperset(columns.names):
        text = f"files at path {path} have no columns beside those of their directories"
        raise ServiceError("schema-unknown", text, hint="give directories and columns different names")
    if OP in columns.names and columns[OP].dataType.simpleString() != "string":
        text = f"`{OP}` of the files at path {path} is {columns[OP].dataType.simpleString()}, not a string"
        raise ServiceError("schema-unknown", text, hint="its values are `i`, `u` and `d`")


def columns_from_header(
    spark: SparkSession, path: str, file: str, declared: StructType, keys: Collection[str]
) -> StructType:
    """Return the columns of CSV files, from one header: declared columns with their types, others as text.

    Partition columns come last.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    options = {**FORMATS["csv"].read_options, "inferSchema": "false"}
    reader = case_sensitive_session(spark).read.format("csv").options(**options)
    found = reader.load(file).schema
    _check_header(reader, found.names, file)
    types = {field.name.lower(): field for field in declared}
    header = [types.pop(name.lower(), StructField(name, StringType())) for name in found.names if name not in keys]
    beside = [field for field in types.values() if field.name in keys]
    if missing := [field.name for field in types.values() if field.name not in keys]:
        text = f"`schema` has a column `{missing[0]}`, and the files at path {path} have none in their header"
        raise ServiceError("schema-unknown", text, hint=f"they have {', '.join(found.names)}")
    return StructType([*header, *beside])


def _check_header(reader: DataFrameReader, names: Sequence[str], file: str) -> None:
    """Refuse missing and duplicate names in a header: Spark gives such columns names that end with their position."""
    if not any(name.endswith(str(place)) for place, name in enumerate(names)):
        return
    header = reader.options(header="false", inferSchema="false").load(file).head()
    written = [name or "" for name in header or ()]
    if "" in written:
        text = f"column {written.index('') + 1} of {file} has no name"
        raise ServiceError("column-names", text, hint="give it one in the first line")
    if wrong := duplicate_names_error(written, file, RENAMING):
        raise wrong


def _apply_types(found: StructType, wanted: Mapping[str, str]) -> StructType:
    """Apply wanted types to inferred columns of text files, whose types follow from their values: text stays text, and
    a number with a fraction is not read as an integer because its values look like one."""
    from pyspark.sql.types import DoubleType, FloatType, NumericType, StringType, StructField, StructType

    types = {name.lower(): kind for name, kind in wanted.items()}

    def typed(field: StructField) -> DataType:
        match field.name.lower() in types and data_type(types[field.name.lower()]).this:
            case exp.DataType.Type.TEXT:
                return StringType()
            case exp.DataType.Type.FLOAT if isinstance(field.dataType, NumericType):
                return FloatType()
            case exp.DataType.Type.DOUBLE if isinstance(field.dataType, NumericType):
                return DoubleType()
            case _:
                return field.dataType

    return StructType([StructField(field.name, typed(field)) for field in found])


def _file_schema(reader: DataFrameReader, file: str) -> StructType | None:
    from pyspark.errors import AnalysisException

    from penstock.spark_internals.errors import UNNAMED_ERRORS

    try:
        return reader.load(file).schema
    except (AnalysisException, UNNAMED_ERRORS) as error:  # the file cannot be read; whoever reads its rows reports that
        if isinstance(error, AnalysisException) and error.getCondition() == "COLUMN_ALREADY_EXISTS":
            raise
        return None


def _parquet_schema(reader: DataFrameReader, root: str, files: Sequence[str]) -> StructType | None:
    """Infer the columns of Parquet files. If types differ, Spark fails: the files are then halved until types agree."""
    from pyspark.errors import AnalysisException

    from penstock.spark_internals.errors import UNNAMED_ERRORS

    def of(some: Sequence[str], at: str | None = None) -> StructType | None:
        try:
            return reader.load(at or list(some)).schema
        except AnalysisException as error:
            if error.getCondition() != "UNABLE_TO_INFER_SCHEMA":
                raise
            return None
        except UNNAMED_ERRORS as error:
            if "CANNOT_MERGE_SCHEMAS" not in str(error) or len(some) < 2:
                raise
        middle = len(some) // 2
        halves = [schema for schema in (of(some[:middle]), of(some[middle:])) if schema is not None]
        return reduce(widen_schemas, halves) if halves else None

    return of(files, root)


def write_columns(path: Path, columns: StructType) -> None:
    """Write columns to a file, for `read_columns`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_suffix(".new")
    staged.write_text(columns.json(), encoding="utf-8")
    staged.replace(path)


def read_columns(path: Path) -> StructType | None:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def widen_schemas(one: StructType, other: StructType) -> StructType:
    """Merge two schemas, each column with the type that holds the values of both. A file may lack any column."""
    from pyspark.sql.types import StructField, StructType

    types = {field.name: field.dataType for field in one}
    for field in other:
        known = types.get(field.name)
        types[field.name] = field.dataType if known is None else _widen_type(field.name, known, field.dataType)
    return StructType([StructField(name, kind) for name, kind in types.items()])


def _widen_type(name: str, one: DataType, other: DataType) -> DataType:
    from pyspark.sql.types import StructType

    if one == other:
        return one
    if isinstance(one, StructType) and isinstance(other, StructType):
        return widen_schemas(one, other)
    first, second = one.simpleString(), other.simpleString()
    if second in _WIDER.get(first, ()):
        return other
    if first in _WIDER.get(second, ()):
        return one
    text = f"the column `{name}` is {first} in some files and {second} in others, and none of them holds both"
    raise ServiceError("schema-unknown", text, hint="read files with other types by a source of their own")
