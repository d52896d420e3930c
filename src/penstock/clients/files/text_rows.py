"""Decodes lines of JSON and records of CSV one by one: what cannot be decoded is marked, with its file and line.

JSON files are read as lines of text and decoded like Kafka values: Spark's JSON reader would stop at the first bad
line, or turn values that do not fit into nulls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.clients.files.formats import JSON_OPTIONS, Format
from penstock.clients.jvm.strict_json import json_fault, json_row, line_number
from penstock.row_columns import ERROR, ORIGIN
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

TEXT_FORMATS: Final = frozenset({"json", "csv"})
LINE: Final = "_unreadable_line"
"""The column with the original text of a CSV record that cannot be decoded."""
TEXT: Final = "value"
"""The column with a line of JSON."""
_DECODED: Final = "_decoded"
_PLACE: Final = "_line"
_SMALLEST: Final = -(2**31)
_REPLACEMENT: Final = "\ufffd"
"""The character that Spark's CSV reader substitutes for bytes that are not UTF-8."""
_WITH_TEXT: Final = f"startswith({TEXT}, '{{') OR trim(BOTH ' \t\r' FROM {TEXT}) <> ''"
_IN_THE_FILE: Final = (
    "concat(', in ', regexp_replace(url_decode(replace(input_file_name(), '+', '%2B')), '^file:/*', '/'))"
)
"""Expressions are passed to Spark as text where possible: each call to the JVM costs time at every start."""
_UNFIT: Final = "field-mismatch: a field does not fit the type of its column"
_UNLIKE: Final = "not-csv: its line does not have the columns of the file"
_CALENDAR: Final = ("0001-01-01", "+10000-01-01")
"""The first day that a column can have, and the one after the last."""


def reader_name(form: Format) -> str:
    """Return the name of Spark's reader for files of a format."""
    return "text" if form.name == "json" else form.name


def reader_options(form: Format) -> dict[str, str]:
    if form.name == "json":
        return {}
    marked = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": LINE} if form.name == "csv" else {}
    return {**form.read_options, **marked}


def reader_schema(form: Format, columns: StructType, keys: Collection[str] = ()) -> StructType:
    """Return the schema for Spark's reader of files with these columns; `keys` are the partition columns."""
    from pyspark.sql.types import DecimalType, StringType, StructField, StructType

    if form.name == "json":
        line = StructField(TEXT, StringType())
        return StructType([line, *(field for field in columns if field.name in keys)])
    if form.name != "csv":
        return columns

    def as_read(field: StructField) -> StructField:  # Spark would round decimals
        is_decimal = isinstance(field.dataType, DecimalType) and field.name not in keys
        return StructField(field.name, StringType() if is_decimal else field.dataType)

    return StructType([*map(as_read, columns), StructField(LINE, StringType())])


def read_rows(
    table: DataFrame,
    form: Format,
    columns: StructType,
    kept: Mapping[str, Column] | None = None,
    keys: Collection[str] = (),
    in_files: StructType | None = None,
) -> DataFrame:
    """Decode the rows of a reader, with the fault of each in `ERROR`, and with the columns `kept`.

    A fault includes the file, if no column does. `in_files` has all columns of CSV files if only some are read.
    """
    beside = [column.alias(name) for name, column in (kept or {}).items()]
    has_file = ORIGIN in (kept or {})
    if form.name == "json":
        return _decode_lines(table, columns, beside, keys, has_file=has_file)
    if form.name == "csv":
        return _decode_records(table, columns, in_files or columns, beside, has_file=has_file)
    return table.select(*map(quote_spark_identifier, columns.names), f.lit(None).cast("string").alias(ERROR), *beside)


def drop_undecodable(rows: DataFrame) -> DataFrame:
    """Drop the rows that could not be decoded."""
    return rows.where(f.col(ERROR).isNull()).drop(ERROR) if ERROR in rows.columns else rows


def _decode_lines(
    table: DataFrame, columns: StructType, beside: list[Column], keys: Collection[str], *, has_file: bool
) -> DataFrame:
    line = f.col(TEXT).cast("binary")
    schema = _ddl([field for field in columns if field.name not in keys])
    reason = f.coalesce(json_fault(line, schema), f.lit(_UNFIT))
    fault = f.when(f.col(_DECODED).isNull(), _add_file_name(reason, has_file=has_file))
    prefixes = {name: "" if name in keys else f"{_DECODED}." for name in columns.names}
    values = [f"{prefix}{quote_spark_identifier(name)}" for name, prefix in prefixes.items()]
    lines = table.where(_WITH_TEXT).withColumn(_DECODED, json_row(line, schema))
    every = [f"{_DECODED}.*"] if values and not keys else values
    return lines.select(*every, fault.alias(ERROR), *beside)


def _add_file_name(fault: Column, *, has_file: bool) -> Column:
    """Append the name of the file to a fault, unless a column has it."""
    return fault if has_file else f.concat(fault, f.expr(_IN_THE_FILE))


def _decode_records(
    table: DataFrame, columns: StructType, in_files: StructType, beside: list[Column], *, has_file: bool
) -> DataFrame:
    from pyspark.sql.types import DateType, DecimalType, StringType, TimestampType

    def value(field: StructField) -> Column:
        column = f.col(quote_spark_identifier(field.name))
        return _decimal(column, field.dataType) if isinstance(field.dataType, DecimalType) else column

    # Spark parses only values that are used, so all of them are used here; the condition always holds.
    used = [quote_spark_identifier(field.name) for field in columns if not _is_nested(field)]
    wrong = f.col(LINE).isNotNull() & (f.hash(f.lit(0), *used) >= _SMALLEST)
    fault = f.when(wrong, f.coalesce(_csv_mismatch(in_files), f.lit(_UNLIKE)))
    for field in columns:
        column = f.col(quote_spark_identifier(field.name))
        match field.dataType:
            case StringType():
                fault = fault.when(column.contains(_REPLACEMENT), f.lit(f"not-text: `{field.name}` is not UTF-8"))
            case DecimalType() as kind:
                rounded = column.isNotNull() & _decimal(column, kind).isNull()
                fault = fault.when(rounded, _mismatch(field, column))
            case TimestampType() | DateType():
                first, end = (f.lit(day).cast(field.dataType) for day in _CALENDAR)
                outside = (column < first) | (column >= end)
                fault = fault.when(outside, _mismatch(field, column.cast("string")))
    marked = f.when(fault.isNotNull(), _add_file_name(fault, has_file=has_file)).alias(ERROR)
    return table.select(*(value(field).alias(field.name) for field in columns), marked, *beside)


def _is_nested(field: StructField) -> bool:
    """Whether the type of a column cannot occur in CSV. Topics with such a column may still have JSON files."""
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType

    return isinstance(field.dataType, ArrayType | MapType | StructType | VariantType)


def _decimal(text: Column, kind: Any) -> Column:
    """Convert text to a decimal; null if it is not one, or would be rounded."""
    plain = f.replace(f.trim(text), f.lit(","))
    exact = plain.rlike(rf"^[+-]?\d*(\.\d{{0,{kind.scale}}}0*)?$")
    widest = f"DECIMAL(38, {38 - (kind.precision - kind.scale)})"
    with_exponent = plain.rlike("[eE]") & (plain.try_cast(widest) == plain.try_cast(kind))
    return f.when(exact | with_exponent, plain.try_cast(kind))


def _csv_mismatch(columns: StructType) -> Column:
    """Return which value of a record does not fit its column, if the record has as many values as there are columns."""
    from pyspark.sql.types import StringType

    texts = ", ".join(f"c{place} STRING" for place in range(len(columns)))
    parts = f.from_csv(f.col(LINE), texts, {"escape": '"'})
    reasons = [
        f.when(part.isNotNull() & part.try_cast(field.dataType).isNull(), _mismatch(field, part))
        for place, field in enumerate(columns)
        if not isinstance(field.dataType, StringType) and not _is_nested(field)
        for part in [parts[f"c{place}"]]
    ]
    return f.coalesce(f.lit(None).cast("string"), *reasons)


def _mismatch(field: StructField, text: Column) -> Column:
    kind = field.dataType.simpleString().upper()
    return f.concat(f.lit(f"field-mismatch: `{field.name}`: `"), f.substring(text, 1, 60), f.lit(f"` is not a {kind}"))


def number_lines(table: DataFrame, form: Format) -> DataFrame:
    """Add the line number of each row in its file, for `row_origin`.

    The session must read whole files (`read_whole_files`). A CSV record of several lines counts as one, and the header
    is the first. In Parquet it is the number of the row.
    """
    file = f.col("_metadata.file_path")
    match form.name:
        case "json":
            place = line_number(file, 0)
        case "csv":
            place = line_number(file, 1)
        case "parquet":
            place = f.col("_metadata.row_index") + 1
        case _:
            place = f.lit(None).cast("bigint")
    return table.withColumn(_PLACE, place)


def file_address() -> Column:
    """Return the file of a row, as a readable URI."""
    return f.url_decode(f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B")))


def row_origin(form: Format, columns: StructType, file: Column | None = None) -> Column:
    """Return the origin of a row, and its content: a line of JSON unchanged, anything else as JSON, if it is a row.

    The file is named by its URI, or by `file`.
    """
    whole = f.struct(*map(quote_spark_identifier, columns.names))
    row = f.col(TEXT) if form.name == "json" else f.to_json(whole, JSON_OPTIONS)
    return f.struct(
        (file_address() if file is None else file).alias("topic"),
        f.lit(None).cast("int").alias("partition"),
        f.col(_PLACE).alias("offset"),
        f.col("_metadata.file_modification_time").alias("timestamp"),
        f.lit(None).cast("string").alias("key"),
        (f.coalesce(f.col(LINE), row) if form.name == "csv" else row).alias("value"),
    )


def read_whole_files(spark: SparkSession) -> None:
    """Make a session read each file as a whole, and several files in one task, so that lines can be counted."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(2**62))
    spark.conf.set("spark.sql.files.openCostInBytes", str(2**40))


def decode_dead_letters(
    records: DataFrame, form: Format, columns: StructType, in_files: StructType | None = None
) -> DataFrame:
    """Decode the rows of dead letters: JSON objects, or CSV records as they were in their file."""
    schema = _ddl((in_files or columns).fields)
    read = json_row(f.col("value"), schema)
    fault = f.coalesce(json_fault(f.col("value"), schema), f.lit(_UNFIT))
    if form.name == "csv" and not any(map(_is_nested, columns)):
        options = {"columnNameOfCorruptRecord": LINE, "escape": '"', "mode": "PERMISSIVE"}
        is_object = f.col("value").cast("string").startswith("{")
        record = f.from_csv(f.col("value").cast("string"), f"{schema}, {LINE} STRING", options)
        fitting = f.when(record[LINE].isNull(), record.dropFields(LINE))
        read = f.when(is_object, read).otherwise(fitting)
        fault = f.when(is_object, fault).otherwise(f.lit(_UNLIKE))
    found = records.withColumns({_DECODED: read, ORIGIN: f.struct(*records.columns)})
    values = [f.col(f"{_DECODED}.{quote_spark_identifier(name)}").alias(name) for name in columns.names]
    return found.select(*values, f.when(f.col(_DECODED).isNull(), fault).alias(ERROR), ORIGIN)


def _ddl(fields: Collection[StructField]) -> str:
    from pyspark.sql.types import StructType

    return StructType(list(fields)).toDDL()
