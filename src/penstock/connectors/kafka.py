"""Kafka topics as a source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from penstock.batch import PartRead
from penstock.clients.kafka import decode
from penstock.clients.kafka.data_formats import Beginning, Schema, format_validator
from penstock.clients.kafka.decode import add_order, with_origin
from penstock.clients.rows.topic_names import TopicName
from penstock.config import FrozenModel, Whole
from penstock.connectors.contract import ERROR, ORIGIN, ReadRequest, RecordSource, Snapshot, SourceCapabilities
from penstock.connectors.kafka_rows import KafkaRows, KnownSchemas, kafka_options
from penstock.connectors.on_kafka import OnKafka
from penstock.errors import ServiceError
from penstock.row_columns import ORDER
from penstock.spark_functions import f
from penstock.sql.types.columns import Column, Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EARLIEST: Final = -2
"""The number by which Spark denotes the earliest offset."""


class SchemaOverride(FrozenModel):
    """A schema id in records, and the id of the schema to decode them with."""

    from_: Whole = Field(alias="from")
    """The schema id in the records."""
    to: Whole
    """The id of the schema to decode them with."""


class KafkaSource(OnKafka, RecordSource):
    """Reads a Kafka topic."""

    type: Literal["kafka"] = "kafka"
    inert: ClassVar = dict.fromkeys(
        ("validate_writer_schema_ordering", "skip_schema_resolution", "skip_schema_resolution_for_reader_schema_ids"),
        "every record is decoded with its writer's schema, and new schemas are fetched",
    )
    topic: TopicName
    """The name of the topic."""
    data_format: Annotated[Literal["avro", "json", "raw"], format_validator("avro", "json", "raw")] = "avro"
    """The format of its values: Avro with a schema registry, JSON objects, or uninterpreted bytes."""
    schema_: Schema | None = Field(None, alias="schema", validation_alias=AliasChoices("schema", "columns"))
    """The columns of JSON objects and their types, such as `int64`, `string`, `u256`, `decimal128(20,4)`, or SQL."""
    starting_offsets: Beginning | dict[Whole, Whole] = "earliest"
    """Where the first run starts: `earliest`, `latest`, a time in milliseconds since 1970, or offsets by partition;
    partitions that are not listed are read from their first record."""
    filter: str | None = None
    """A condition in SQL on all columns that rows must meet."""
    envelope: Literal["debezium"] | None = None
    """The envelope of values: `debezium` takes the row from `before` or `after`, and `_gs_op` from `op`."""
    include_metadata: bool = False
    """Whether rows have the columns `__kafka_partition`, `__kafka_offset` and `__kafka_timestamp`."""
    operation: bool = True
    """Whether rows have the column `_gs_op`, from the header `dbz.op`."""
    schema_subject: str | None = None
    """The subject of its Avro schema in the registry. Default: `<topic>-value`."""
    schema_version: Whole | Literal["latest"] | None = None
    """The version of that schema that rows are decoded to. Default: the latest."""
    schema_id_overrides: tuple[SchemaOverride, ...] = ()
    """Schema ids to replace by others."""
    validate_writer_schema_ordering: bool = True
    """Accepted, but has no effect: a schema that is newer than the reader's is fetched."""
    skip_schema_resolution: bool = False
    """Accepted, but has no effect: records are always decoded with their writer's schema."""
    skip_schema_resolution_for_reader_schema_ids: tuple[Whole, ...] = ()
    """Accepted, but has no effect, as `skip_schema_resolution`."""
    max_offsets_per_trigger: Whole | None = Field(None, ge=1)
    """The maximum number of records per batch. Default: no limit."""

    @model_validator(mode="after")
    def _schema_goes_with_json(self) -> Self:
        if self.schema_ is not None and self.data_format != "json":
            raise ValueError("`schema` is only supported with data_format: json")
        if self.envelope is not None and (self.data_format == "raw" or not self.primary_key):
            raise ValueError("`envelope` needs a `primary_key`, and values that are JSON or Avro")
        numbers = [override.from_ for override in self.schema_id_overrides]
        if twice := [number for number in numbers if numbers.count(number) > 1]:
            raise ValueError(f"`schema_id_overrides` contains duplicate `from` value {twice[0]}")
        return self

    @property
    def capabilities(self) -> SourceCapabilities:
        finds_key = self.data_format == "avro" and self.envelope is None
        return SourceCapabilities(has_records=True, has_positions=True, finds_key=finds_key, condition=self.filter)

    @property
    def subject(self) -> str:
        return self.schema_subject or f"{self.topic}-value"

    def known_columns(self) -> Columns | None:
        if self.schema_ is None:
            return None
        metadata = decode.METADATA_TYPES if self.include_metadata else {}
        return tuple(Column(name, kind) for name, kind in {**self.schema_, **metadata}.items())

    def take_snapshot(self, spark: SparkSession, request: ReadRequest, *, again: bool) -> Snapshot | None:
        book = self._cluster.schemas if self._cluster is not None else None
        if book is None or self.data_format != "avro":
            return None
        reading = self._reading(request)
        reading.schemas()
        reading.key_schemas()
        return KnownSchemas(book.freeze(None if request.directory is None else request.directory / "schemas.json"))

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        """Return the stream, ordered by offset within a partition; there is no order between partitions."""
        records = self._stream(spark, request)
        reading = self._reading(request)
        return reading.rows(add_order(records), *ORDER) if request.ordered else reading.rows(records)

    def reread(
        self, spark: SparkSession, request: ReadRequest, parts: Mapping[str, PartRead] | None
    ) -> DataFrame | None:
        part = None if parts is None else parts.get(request.name)
        if part is None or part.after is None:
            return None
        before, after = json.loads(part.before or "{}"), json.loads(part.after)
        found = with_origin(self._read_range(spark, request, before, after), ORIGIN)
        reading = self._reading(request)
        return reading.rows(add_order(found), ORIGIN, *ORDER) if request.ordered else reading.rows(found, ORIGIN)

    def decode_records(self, records: DataFrame, request: ReadRequest) -> DataFrame:
        return self._reading(request).rows(with_origin(records, ORIGIN), ORIGIN)

    def newer_rows(
        self, spark: SparkSession, request: ReadRequest, places: Mapping[int, int], since_ms: int
    ) -> DataFrame | None:
        from penstock.clients.kafka.admin import KafkaAdmin

        admin = KafkaAdmin(self._kafka)
        first, ends = admin.ends([self.topic], earliest=True), admin.ends([self.topic])
        offsets = {(self.topic, number): offset for number, offset in places.items()}
        if not all(first.get(at, 0) <= offset + 1 <= ends.get(at, 0) for at, offset in offsets.items()):
            return None
        since = {number: at for (_, number), at in admin.offsets_since([self.topic], since_ms).items()}
        before = {str(number): places[number] + 1 if number in places else at for number, at in since.items()}
        after = {str(number): max(end, int(before.get(str(number), 0))) for (_, number), end in ends.items()}
        found = self._read_range(spark, request, {self.topic: before}, {self.topic: after})
        return self._reading(request).rows(with_origin(found, ORIGIN), ORIGIN)

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        reading = self._reading(request)
        rows = reading.rows(reading.table(spark))
        return rows.where(f.col(ERROR).isNull()).drop(ERROR)

    def check(self) -> None:
        from penstock.clients.kafka.admin import KafkaAdmin

        if self.topic not in KafkaAdmin(self._kafka).topics():
            raise ServiceError("topic-missing", f"Kafka at {self._kafka.servers} has no topic `{self.topic}`")
        if self.data_format == "avro":
            found = self._reading(ReadRequest())
            found.schemas()
            found.key_schemas()

    def _stream(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        options = {**self._options(request), **self._start_options(), "subscribe": self.topic}
        reader = spark.readStream.name(request.name).format("kafka").options(**options)
        if self.max_offsets_per_trigger is not None:
            reader = reader.option("maxOffsetsPerTrigger", self.max_offsets_per_trigger)
        if request.any_order:  # several cores read one partition, which loses its order
            reader = reader.option("minPartitions", spark.sparkContext.defaultParallelism)
        return reader.load()

    def _start_options(self) -> dict[str, str]:
        given = self.starting_offsets
        if isinstance(given, dict):
            from penstock.clients.kafka.admin import KafkaAdmin

            self.check()
            partitions = KafkaAdmin(self._kafka).topics()[self.topic].partitions
            places = {str(number): given.get(number, _EARLIEST) for number in range(partitions)}
            return {"startingOffsets": json.dumps({self.topic: places})}
        if given.isdigit():
            return {"startingTimestamp": given, "startingOffsetsByTimestampStrategy": "latest"}
        return {"startingOffsets": given}

    def _read_range(
        self, spark: SparkSession, request: ReadRequest, before: dict[str, Any], after: dict[str, Any]
    ) -> DataFrame:
        """Read the records between two positions; partitions that the first one lacks are read from their start."""
        begun = {topic: {n: before.get(topic, {}).get(n, _EARLIEST) for n in ends} for topic, ends in after.items()}
        partitions = {topic: [int(number) for number in ends] for topic, ends in after.items()}
        places = {"startingOffsets": json.dumps(begun), "endingOffsets": json.dumps(after)}
        options = {**self._options(request), **places, "assign": json.dumps(partitions)}
        return spark.read.format("kafka").options(**options).load()

    def _options(self, request: ReadRequest) -> dict[str, str]:
        return kafka_options(self._kafka, headers=self._reading(request).has_operation)

    def _reading(self, request: ReadRequest) -> KafkaRows:
        assert self._cluster is not None
        return KafkaRows(self, self._cluster, request)
