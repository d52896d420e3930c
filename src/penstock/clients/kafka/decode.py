"""Decodes Kafka records into rows on the JVM. Records that cannot be decoded are marked, not lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from penstock.clients.files.text_columns import texts_schema
from penstock.clients.int256.columns import DerivedColumn, register_int256
from penstock.clients.jvm.strict_json import checked_json, json_fault, json_row
from penstock.clients.kafka.confluent_wire import WriterSchemas
from penstock.clients.kafka.tombstone_keys import UNREADABLE, decode_key
from penstock.clients.rows.reserved_columns import invalid_names_error
from penstock.row_columns import OP, ORDER
from penstock.spark_functions import f
from penstock.spark_internals.expressions import try_column
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.int256 import conversion_function, parse_int256_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OPERATION_HEADER: Final = "dbz.op"
"""The header that says whether a record is an insert, an update or a delete."""
OPERATIONS: Final[Mapping[str, str]] = {"r": "i", "c": "i", "i": "i", "u": "u", "d": "d"}
METADATA: Final[Mapping[str, str]] = {
    "__kafka_partition": "partition",
    "__kafka_offset": "offset",
    "__kafka_timestamp": "timestamp",
}
"""The columns of `include_metadata`, and the record fields that they come from."""
METADATA_TYPES: Final = dict(zip(METADATA, ("INT", "BIGINT", "TIMESTAMP"), strict=True))
RENAMING: Final = (
    "leave it out: of JSON, `schema` names the columns that are read; of Avro, those count that SQL asks for"
)
"""The hint for a column whose name cannot be used."""
VALUE: Final = "_decoded"
"""The column that holds the decoded value."""
ENVELOPE: Final = "_envelope"
"""The column that holds the decoded envelope."""
ROW_AT: Final = ("after", "before")
"""The fields of an envelope that may hold the row."""

FAULTS: Final[Mapping[str, str]] = {
    "not-text": "its value is not text in UTF-8",
    "not-json": "its value is not a JSON object",
    "not-csv": "its line does not have the columns of the file, or a value does not fit the type of its column",
    "duplicate-key": "a key occurs twice in one JSON object",
    "field-mismatch": "a field does not fit the type of its column",
    "no-value": "it has no value, and no key that identifies the deleted row",
    UNREADABLE: "it has no value, and its key cannot be read as the primary key of a row",
    "no-row": "its envelope has no row for its operation",
    "unknown-operation": f"its header `{OPERATION_HEADER}`, or its `op`, is none of r, c, u, d",
    "not-avro": "its value does not begin with the header of a schema registry",
    "schema-id-unknown": "the schema registry does not know its schema",
    "avro-unreadable": "its bytes do not fit its schema",
}
"""Faults by code: why a record cannot be decoded. A fault is a code, or a code, `: ` and a more detailed reason."""


@dataclass(frozen=True, slots=True)
class DecodedValue:
    """A value as a struct of columns, whether it is plainly valid, and otherwise its fault: one of `FAULTS`, or null.

    Most records are valid, and nothing more should be evaluated for them. An envelope is decoded first, and has the
    operation of the row.
    """

    value: Column
    sound: Column
    fault: Column
    envelope: Column | None = None
    operation: Column | None = None
    made: Mapping[str, DerivedColumn] = field(default_factory=dict)
    """The columns that are derived from the value of the same name."""
    absent: Column | None = None
    """Whether the value is an encoded null, so that the record counts as one without a value."""


def json_value(columns: Mapping[str, str]) -> DecodedValue:
    """Decode JSON objects. A missing field is null; a field that does not fit its type is a fault."""
    return _json(_fields(columns), VALUE, _derive_from_text(columns))


def json_envelope_value(columns: Mapping[str, str]) -> DecodedValue:
    """Decode JSON objects in a Debezium envelope, with their schema or without."""
    row = f"STRUCT<{_fields(columns)}>"
    schema = f"before {row}, after {row}, op STRING"
    return unwrap_envelope(_json(schema, ENVELOPE, _derive_from_text(columns), envelope=True))


def unwrap_envelope(whole: DecodedValue) -> DecodedValue:
    """Take the row from the decoded envelope in `ENVELOPE`: `before` of a delete, and `after` of anything else."""
    said = f.col(f"{ENVELOPE}.op")
    operation = _known_operation(said)
    value = f.when(said == "d", f.col(f"{ENVELOPE}.before")).otherwise(f.col(f"{ENVELOPE}.after"))
    sound = whole.sound & f.col(VALUE).isNotNull() & operation.isNotNull()
    fault = f.coalesce(
        whole.fault,
        f.when(said.isNotNull() & operation.isNull(), "unknown-operation").when(f.col(VALUE).isNull(), "no-row"),
    )
    return DecodedValue(value, sound, fault, whole.value, f.coalesce(operation, f.lit("i")), whole.made, whole.absent)


def _fields(columns: Mapping[str, str]) -> str:
    """Return the columns as they are read: 256-bit numbers as text, from which they are derived."""
    return ", ".join(
        f"{quote_spark_identifier(name)} {kind if parse_int256_type(kind) is None else 'STRING'}"
        for name, kind in columns.items()
    )


def _derive_from_text(columns: Mapping[str, str]) -> dict[str, DerivedColumn]:
    kinds = {name: kind for name, text in columns.items() if (kind := parse_int256_type(text)) is not None}
    return {name: DerivedColumn(conversion_function(kind), kind) for name, kind in kinds.items()}


def _json(schema: str, at: str, made: Mapping[str, DerivedColumn], *, envelope: bool = False) -> DecodedValue:
    """Decode a value into a struct, which is then found in the column `at`. A schema registry's header is skipped."""
    value = json_row(f.col("value"), schema, registry=True, envelope=envelope)
    fault = f.coalesce(json_fault(f.col("value"), schema, registry=True, envelope=envelope), f.lit("field-mismatch"))
    return DecodedValue(value, f.col(at).isNotNull(), f.when(f.col(at).isNull(), fault), made=made)


def raw_value() -> DecodedValue:
    """Take the bytes of the value as the single column `value`."""
    return DecodedValue(f.struct(f.col("value").alias("value")), f.lit(False), f.lit(None).cast("string"))


@dataclass(frozen=True, slots=True)
class Shape:
    """What rows have in addition to the columns of the value."""

    key: Sequence[str] = ()
    operation: bool = False
    metadata: bool = False
    key_schemas: WriterSchemas | None = None
    """The Avro schemas of keys; None if there is no registry to ask."""
    topic: str = ""
    """The topic of the records, for messages."""


def json_columns(records: DataFrame) -> dict[str, str]:
    """Infer the columns of JSON objects with Spark, from all valid ones."""
    from pyspark.sql.types import StructField, StructType

    texts = records.select(checked_json(f.col("value"), registry=True).alias("text")).where("text IS NOT NULL")
    fields = {field.name: StructType([StructField("x", field.dataType)]) for field in texts_schema(texts, {})}
    return {name: struct.toDDL().removeprefix("x ") for name, struct in fields.items()}


def decode_records(
    records: DataFrame, decoded: DecodedValue, shape: Shape, fault: str, kept: Sequence[str] = ()
) -> DataFrame:
    """Decode records into rows, with the fault of each in the column `fault`, and with their columns `kept`."""
    if decoded.envelope is not None:
        records = records.withColumn(ENVELOPE, decoded.envelope)
    fields: Any = records.select(decoded.value.alias(VALUE)).schema[0].dataType
    said = _operation() if decoded.operation is None else decoded.operation
    types = {field.name: field.dataType for field in fields}
    reserved = METADATA if shape.metadata else ()
    if invalid := invalid_names_error(types, f"topic `{shape.topic}`", RENAMING, reserved):
        raise invalid
    made = {name: how for name, how in decoded.made.items() if name in types}
    gone = f.col("value").isNull() | (f.length("value") == 0)
    if decoded.absent is not None:
        gone = gone | decoded.absent
    deletes = bool(shape.key) and shape.operation
    keys: Mapping[str, Column] = {}
    without_value = f.when(gone, "no-value")
    if deletes:
        identifying = {name: kind for part in shape.key for name, kind in types.items() if name.lower() == part.lower()}
        key = decode_key(identifying if len(identifying) == len(shape.key) else {}, made, shape.key_schemas)
        without_value = f.when(gone & f.col("key").isNull(), "no-value").when(gone, key.fault)
        keys = key.columns
    wrong = f.when(~decoded.sound, without_value.when(~gone, decoded.fault))
    if shape.operation and decoded.operation is None:
        wrong = f.coalesce(wrong, f.when(said.isNull(), "unknown-operation"))
    if made:
        register_int256(records.sparkSession)

    def column(name: str) -> Column:
        read = f.col(f"{VALUE}.{quote_spark_identifier(name)}")
        found = made[name].of(read) if name in made else read
        return (f.when(gone, keys[name]).otherwise(found) if name in keys else found).alias(name)

    columns = [column(name) for name in types]
    for name, how in made.items():
        read = f.col(f"{VALUE}.{quote_spark_identifier(name)}")
        wrong = f.coalesce(wrong, f.when(~gone & read.isNotNull() & how.of(read).isNull(), "field-mismatch"))
    if shape.operation and OP not in types:
        columns.append((f.when(gone, "d").otherwise(said) if deletes else said).alias(OP))
    if shape.metadata:
        columns += [f.col(of).alias(name) for name, of in METADATA.items()]
    return records.withColumn(VALUE, decoded.value).select(*columns, wrong.alias(fault), *kept)


def filter_by_metadata(records: DataFrame, condition: str) -> DataFrame:
    """Filter records by a condition on their position and time. Records for which it cannot be computed are kept."""
    found = records.withColumns({name: f.col(of) for name, of in METADATA.items()})
    return found.where(f.coalesce(try_column(f.expr(condition)), f.lit(True))).drop(*METADATA)


def _operation() -> Column:
    """Return the operation in a record's header: an insert if there is none, null if it is unknown."""
    said = f.filter("headers", lambda header: header["key"] == OPERATION_HEADER)
    word = f.try_element_at(said, f.lit(-1))["value"].cast("string")
    return f.when(word.isNull(), "i").otherwise(_known_operation(word))


def _known_operation(word: Column) -> Column:
    known = f.create_map(*(f.lit(part) for pair in OPERATIONS.items() for part in pair))
    return f.try_element_at(known, word)


def with_origin(records: DataFrame, name: str) -> DataFrame:
    """Add a column with all fields of the record."""
    headers = ["headers"] if "headers" in records.columns else []
    whole = f.struct("topic", "partition", "offset", "timestamp", "key", "value", *headers)
    return records.withColumn(name, whole)


def add_order(records: DataFrame) -> DataFrame:
    """Add the columns of `ORDER`: records are ordered by partition, and within it by offset."""
    partition = f.concat_ws("/", f.col("topic"), f.lpad(f.col("partition").cast("string"), 9, "0"))
    places = (f.lit(0).cast("bigint"), partition, f.col("offset"), f.lit(0).cast("bigint"))
    return records.withColumns(dict(zip(ORDER, places, strict=True)))
