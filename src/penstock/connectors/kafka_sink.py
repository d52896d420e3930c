"""Kafka topics as a sink."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, PrivateAttr

from penstock.batch import BatchRef
from penstock.clients.files.batch_directory import observe_count
from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.int256.columns import (
    int256_columns,
    int256_to_texts,
    register_int256,
    text_column,
    to_decimal_bytes,
)
from penstock.clients.kafka.confluent_wire import schema_header
from penstock.clients.kafka.data_formats import format_validator
from penstock.clients.kafka.decode import OPERATION_HEADER
from penstock.clients.registry.columns import columns_of
from penstock.clients.rows.row_op import row_operation
from penstock.clients.rows.topic_names import TopicName
from penstock.config import NODE, Whole
from penstock.connectors.contract import KeepRows, SinkCapabilities, StreamSink, WriteResult
from penstock.connectors.on_kafka import OnKafka
from penstock.errors import QueryFailed, ServiceError
from penstock.row_columns import OP
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.avro_types import avro_record
from penstock.sql.types.columns import Column

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_AROUND: Final = 92
"""The maximum overhead in bytes of a record besides its key, value and headers, with that of its record batch."""
_PRODUCER_BATCH: Final = 16_384
"""The default `batch.size` of a producer, in bytes."""
_HEADER: Final = 17
"""The maximum size in bytes of a header with an operation."""


class KafkaSink(OnKafka, StreamSink):
    """Writes a Kafka topic."""

    type: Literal["kafka"] = "kafka"
    delivery = "at least once: a batch that was interrupted is written again"
    waives: ClassVar = {
        "a_replayed_batch_leaves_no_duplicates": "it is written again",
        "a_batch_of_the_same_number_from_other_input_is_refused": "it keeps no ledger",
    }
    topic: TopicName
    """The name of the topic."""
    data_format: Annotated[Literal["avro", "json"], format_validator("avro", "json")]
    """The format of its values: Avro with a schema registry, or JSON objects."""
    topic_partitions: Whole = Field(4, ge=1)
    """The number of partitions of the topic if it has to be created."""
    compression: Literal["none", "gzip", "lz4", "snappy", "zstd"] | None = None
    """The compression of record batches. Default: `lz4`, and `none` in real-time mode."""
    message_max_bytes: Whole = Field(10_485_760, ge=1)
    """The maximum size of a record in bytes, before compression. A topic has its own limit, `max.message.bytes`; a
    topic that is created here accepts records of this size."""
    deduplicate: bool = True
    """Whether rows of a batch are compacted to the last one per key."""
    schema_: str | None = Field(None, alias="schema")
    """The Avro schema of its values. Default: derived from the columns."""
    _known_largest: int | None = PrivateAttr(None)

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities.by_key(
            self.primary_key,
            key_message=f"kafka sink '{NODE}' requires a primary key, but none could be resolved",
            compaction_key=self.primary_key if self.deduplicate else (),
            takes_int256=True,
            duplicates=True,
        )

    def check(self) -> None:
        """Check that the servers answer. The topic need not exist: it is created when the query starts."""
        from penstock.clients.kafka.admin import KafkaAdmin

        KafkaAdmin(self._kafka).topics()
        if self.data_format == "avro":
            self._book.registry.newest(self._subject)

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return "all of its records are deleted"

    def empty(self) -> None:
        from penstock.clients.kafka.admin import KafkaAdmin

        KafkaAdmin(self._kafka).empty(self.topic)

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        rows, count = observe_count(self._records(batch))
        rows.write.format("kafka").mode("append").options(**self._options("lz4"), topic=self.topic).save()
        return WriteResult(count())

    def trial(self, rows: DataFrame, ref: BatchRef, place: str | None = None) -> Iterator[tuple[int, str]] | None:
        if place is not None:
            return self._too_large_rows(rows, place)
        found = self._records(rows)
        (largest,) = found.select(f.max(_size(found))).first() or (None,)
        if largest is not None and largest > self._largest:
            raise QueryFailed("rows-refused", self._too_large(largest))
        return None

    def _too_large_rows(self, rows: DataFrame, place: str) -> Iterator[tuple[int, str]]:
        found = self._records(rows, place)
        sizes = found.select(place, _size(found).alias("size")).where(f"size > {self._largest}")
        return ((row[place], self._too_large(row["size"])) for row in sizes.collect())

    def _too_large(self, size: int) -> str:
        return f"it has up to {size:,} bytes as a record, and the topic `{self.topic}` takes {self._largest:,}"

    @property
    def _largest(self) -> int:
        """The maximum size of a record, by the configuration of the sink and of the topic."""
        from penstock.clients.kafka.admin import KafkaAdmin

        if self._known_largest is None:
            try:
                taken = KafkaAdmin(self._kafka).setting(self.topic, "max.message.bytes")
            except ServiceError:  # the user may lack the right to ask; then only the limit of the sink is known
                taken = None
            self._known_largest = min(self.message_max_bytes, int(taken or self.message_max_bytes))
        return self._known_largest

    def write_stream(self, rows: DataFrame, *, realtime: bool = False) -> DataStreamWriter:
        # In real-time mode a record is sent alone: compressing it gains nothing and takes a few milliseconds.
        options = self._options("none" if realtime else "lz4")
        return self._records(rows).writeStream.format("kafka").outputMode("update").options(**options, topic=self.topic)

    def _records(self, batch: DataFrame, *beside: str) -> DataFrame:
        """Encode rows as records; the columns `beside` are kept unchanged."""
        if self.data_format == "json":
            batch = int256_to_texts(batch)
            whole = f.struct(*(quote_spark_identifier(name) for name in batch.columns if name not in (OP, *beside)))
            value = f.to_json(whole, JSON_OPTIONS).cast("binary")
        else:
            value = self._avro(batch.drop(*beside))
        columns = [value.alias("value")]
        if self.primary_key:
            columns.append(self._key(batch).alias("key"))
        if OP in batch.columns:
            said = row_operation(batch)
            word = f.when(said == "i", "c").otherwise(said)
            header = f.struct(f.lit(OPERATION_HEADER).alias("key"), word.cast("binary").alias("value"))
            columns.append(f.array(header).alias("headers"))
        return batch.select(*columns, *beside)

    def _key(self, batch: DataFrame) -> SparkColumn:
        """Return the record key: the parts joined by colons, or as a JSON object if one is null, because joined text
        without the null would be the key of another row."""
        parts = [text_column(batch, name).cast("string").alias(name) for name in self.primary_key]
        has_null = reduce(or_, (part.isNull() for part in parts))
        return f.when(has_null, f.to_json(f.struct(*parts), JSON_OPTIONS)).otherwise(f.concat_ws(":", *parts))

    def _avro(self, batch: DataFrame) -> SparkColumn:
        """Encode values as Avro in the registry's wire format, with a registered schema."""
        from pyspark.sql.avro.functions import to_avro
        from pyspark.sql.types import NullType

        wide = int256_columns(batch.schema)
        if wide:
            register_int256(batch.sparkSession)

        def column(name: str, kind: str | None = None) -> SparkColumn:
            """Return a column for Avro, cast to a Spark type if one is given."""
            value = f.col(quote_spark_identifier(name))
            if name in wide:
                return to_decimal_bytes(value, wide[name]).alias(name)
            if kind is None and isinstance(batch.schema[name].dataType, NullType):
                kind = "string"
            return text_column(batch, name) if kind is None else value.cast(kind).alias(name)

        if self.schema_ is not None:
            whole = f.struct(*(column(c.name, str(c.type)) for c in columns_of(self.schema_, "avro") or ()))
            number = self._book.register(self._subject, self.schema_)
            return f.concat(f.lit(schema_header(number)), to_avro(whole, self.schema_))
        whole = f.struct(*(column(name) for name in batch.columns if name != OP))
        fields: Any = batch.select(whole.alias("row")).schema[0].dataType
        columns = [Column(field.name, wide.get(field.name) or field.dataType.simpleString()) for field in fields]
        doc = json.dumps({"primaryKeys": list(self.primary_key)}) if self.primary_key else None
        try:
            schema = json.dumps(avro_record(self.topic, columns, doc))
        except ValueError as error:
            hint = "give it another name or type in a transform, or write JSON with `data_format: json`"
            raise QueryFailed("column-type", str(error), hint=hint) from None
        chosen = self._book.writer_schema(self._subject, schema)
        return f.concat(f.lit(schema_header(chosen.number)), to_avro(whole, chosen.text))

    @property
    def _subject(self) -> str:
        return f"{self.topic}-value"

    def _options(self, packing: str) -> dict[str, str]:
        packing = self.compression or packing
        settings = {
            "kafka.compression.type": packing,
            "kafka.max.request.size": str(self.message_max_bytes),
            "kafka.acks": "all",
            "kafka.enable.idempotence": "true",
        }
        if self._largest < _PRODUCER_BATCH:  # else the parts of a split batch would be too large again
            settings["kafka.batch.size"] = str(self._largest)
        return {**settings, **self._kafka.spark_options(), "includeHeaders": "true"}


def _size(records: DataFrame) -> SparkColumn:
    """Return the maximum size of a record in bytes, before compression."""
    parts = [f.coalesce(f.octet_length(name), f.lit(0)) for name in ("value", "key") if name in records.columns]
    headers = [f.size("headers") * _HEADER] if "headers" in records.columns else []
    return sum([*parts, *headers], start=f.lit(_AROUND))
