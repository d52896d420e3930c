"""Prepares the rows of an input for the query."""

from collections.abc import Collection

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, DataType, StructField, StructType

from penstock.clients.int256.columns import has_int256, register_int256
from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.manifest.model import Input
from penstock.manifest.queries.input_columns import RESERVED
from penstock.row_columns import CLOCK, OP, ORDER
from penstock.runtime.query.event_time import convert_event_time
from penstock.runtime.query.provenance import PLACE
from penstock.sql.lint.gate import check_expression
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.rewrite.int256 import rewrite_int256_condition
from penstock.sql.stateful.stages import ORDERED
from penstock.sql.types.columns import Column, Columns
from penstock.sql.types.int256 import mentions_int256


def prepare_input(frame: DataFrame, entry: Input) -> DataFrame:
    """Prepare the rows of an input: filter them, cast them, and add their operation and event time."""
    if entry.with_operation:  # as the last column, so that branches of a UNION with `*` have it at the same position
        operation = f.col(OP) if OP in frame.columns else f.lit("i").alias(OP)
        frame = frame.select(*(quote_spark_identifier(name) for name in frame.columns if name != OP), operation)
    if entry.upsert_key:  # it is unknown whether the key existed before, and an update is correct in either case
        said = f.lower(f.col(OP)) if OP in frame.columns else f.lit(None)
        frame = frame.withColumn(OP, f.when(said == "d", "d").otherwise("u"))
    if entry.cast_to:
        types = {name: kind for name, kind in entry.cast_to.items() if name != OP}
        types |= {OP: "STRING"} if entry.with_operation or OP in entry.cast_to else {}
        kept = [name for name in frame.columns if name == PLACE]
        frame = frame.select(*(_cast_column(frame, name, kind).alias(name) for name, kind in types.items()), *kept)
    if entry.condition is not None:
        frame = filter_rows(frame, entry.condition)
    for column in entry.processing_time:
        frame = frame.withColumn(column, f.expr(f"{CLOCK}()"))
    return frame if entry.event_time is None else convert_event_time(frame, entry.event_time)


def _cast_column(frame: DataFrame, name: str, kind: str) -> Expression:
    """Cast a column. Spark stops at a value that would change."""
    column = f.col(quote_spark_identifier(name))
    if kind == "BOOLEAN" and not isinstance(frame.schema[name].dataType, BooleanType):
        column = column.cast("STRING")  # which is true for 1 and false for 0, and fails for other numbers
    return column.cast(kind)


def filter_rows(frame: DataFrame, condition: str) -> DataFrame:
    register_row_functions(frame.sparkSession, condition)
    if mentions_int256(condition) or has_int256(frame):
        register_int256(frame.sparkSession)
        condition = rewrite_int256_condition(condition, columns_of(frame))
    return frame.where(check_expression(condition))


def select_used(rows: DataFrame, names: Collection[str] | None) -> DataFrame:
    """Select the used columns: operators keep whole rows in their state, which must not contain unused ones."""
    columns = rows.columns
    if names is None or len(set(map(str.lower, columns))) < len(columns):
        return rows
    kept = [name for name in columns if name.lower() in names or name in RESERVED]
    if len(kept) == len(columns):
        return rows
    return rows.select(*map(quote_spark_identifier, kept)) if any(name not in RESERVED for name in kept) else rows


def register_view(entry: Input, rows: DataFrame) -> DataFrame:
    """Register rows as the view of their input, and as a second view with their order if that is needed."""
    if entry.ordered:
        columns = [name for name in rows.columns if name not in ORDER]
        packed = rows.select(f.struct(*map(quote_spark_identifier, columns)).alias("row"), *ORDER)
        packed.createOrReplaceTempView(quote_spark_identifier(entry.view + ORDERED))
        rows = rows.drop(*ORDER)
    rows.createOrReplaceTempView(quote_spark_identifier(entry.view))
    return rows


def columns_of(frame: DataFrame) -> Columns:
    return tuple(Column(c.name, _ddl(c.dataType)) for c in frame.schema)


def _ddl(data_type: DataType) -> str:
    """Return a type as SQL, with quoted names of struct fields where needed."""
    return StructType([StructField("x", data_type)]).toDDL().removeprefix("x ")
