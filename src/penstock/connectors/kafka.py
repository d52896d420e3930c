"""Topics of Kafka, as a source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AliasChoices, Field, PrivateAttr, model_validator

from penstock.batch import PartRead
from penstock.clients.clusters import Cluster, Clusters
from penstock.clients.jvm.maven import Package
from penstock.clients.jvm.packages import KAFKA
from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.clients.kafka import decode
from penstock.clients.kafka.avro import AvroSchemas, avro_value, select_fields
from penstock.clients.kafka.confluent_wire import WriterSchemas
from penstock.clients.kafka.data_formats import Beginning, Schema, format_validator
from penstock.clients.kafka.decode import DecodedValue, Shape, add_order, with_origin
from penstock.clients.rows.reserved_columns import case_sensitive_session, invalid_names_error
from penstock.clients.rows.topic_names import TopicName
from penstock.config import FrozenModel, Whole
from penstock.connectors.contract import ERROR, ORIGIN, Source
from penstock.errors import ServiceError
from penstock.row_columns import OP, ORDER
from penstock.sql.pushdown.referenced_columns import restrict_condition
from penstock.sql.types.columns import Column, Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SAMPLE: Final = 1000
"""How many records are looked at where nobody says what columns they have."""
_AT_ONCE: Final = "10000"
"""How many records Kafka's client hands over at a time. Its own 500 cost Spark a third of its speed, and memory is
bounded by what is fetched."""

_EARLIEST: Final = -2
"""Spark's word for the first record that there is."""


class SchemaOverride(FrozenModel):
    """Records of one schema that are to be read by another."""

    from_: Whole = Field(alias="from")
    """The number that records have."""
    to: Whole
    """The number of the schema to read them by."""


class KafkaSource(Source):
    """Reads a topic of Kafka."""

    type: Literal["kafka"] = "kafka"
    packages: ClassVar[tuple[Package, ...]] = KAFKA
    has_positions = True
    located_by = ("topic",)
    own_labels: ClassVar = frozenset({"topic"})
    inert = dict.fromkeys(
        (
            "validate_writer_schema_ordering",
            "skip_schema_resolution",
            "skip_schema_resolution_for_reader_schema_ids",
        ),
        "every record is read by its own writer's schema, and new ones are asked for",
    )
    topic: TopicName
    """The topic's name."""
    data_format: Annotated[Literal["avro", "json", "raw"], format_validator("avro", "json", "raw")] = "avro"
    """What its values are: Avro of a schema registry, JSON objects, or bytes that are taken as they are."""
    schema_: Schema | None = Field(None, alias="schema", validation_alias=AliasChoices("schema", "columns"))
    """The columns of JSON objects and their types, such as `int64`, `string`, `u256`, `decimal128(20,4)`, or of SQL."""
    starting_offsets: Beginning | dict[Whole, Whole] = "earliest"
    """Where to begin the first time: `earliest`, `latest`, a time in milliseconds since 1970, or offsets by partition;
    partitions that are left out are read from their first record."""
    filter: str | None = None
    """A condition in SQL that rows must meet, over all columns."""
    envelope: Literal["debezium"] | None = None
    """What values stand in: `debezium` takes the row out of `before` or `after`, and `_gs_op` from `op`."""
    include_metadata: bool = False
    """Whether rows have the columns `__kafka_partition`, `__kafka_offset` and `__kafka_timestamp`."""
    operation: bool = True
    """Whether rows have the column `_gs_op`, from the header `dbz.op`."""
    schema_subject: str | None = None
    """What the registry calls the schema of its records in Avro; `<topic>-value` when left out."""
    schema_version: Whole | Literal["latest"] | None = None
    """The version of that schema that rows are read into; the newest when left out."""
    schema_id_overrides: tuple[SchemaOverride, ...] = ()
    """Numbers of schemas that stand for others."""
    validate_writer_schema_ordering: bool = True
    """Whether a schema that is newer than the reader's would end the program. Here it is asked for."""
    skip_schema_resolution: bool = False
    """Whether records would be read without their writer's schema. Here they never are."""
    skip_schema_resolution_for_reader_schema_ids: tuple[Whole, ...] = ()
    """The same for some schemas."""
    max_offsets_per_trigger: Whole | None = Field(None, ge=1)
    """The most records of a batch; as many as there are when left out."""
    _cluster: Cluster | None = PrivateAttr(None)
    _split: bool = PrivateAttr(False)
    _only: frozenset[str] | None = PrivateAttr(None)
    _early: str | None = PrivateAttr(None)
    _notes: Path | None = PrivateAttr(None)

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
    def has_records(self) -> bool:
        return True

    @property
    def subject(self) -> str:
        return self.schema_subject or f"{self.topic}-value"

    @property
    def tells_key(self) -> bool:
        return self.data_format == "avro" and self.envelope is None

    @property
    def filter_(self) -> str | None:
        return self.filter

    def with_clusters(self, clusters: Clusters) -> Self:
        found = self.model_copy()
        found._cluster = clusters.source
        return found

    def without_order(self) -> Self:
        found = self.model_copy()
        found._split = True
        return found

    def with_only(self, names: frozenset[str]) -> Self:
        found = self.model_copy()
        found._only = names.union(name.lower() for name in self.primary_key)
        return found

    def where(self, condition: str) -> Self:
        found = self.model_copy()
        found._early = restrict_condition(condition, decode.METADATA) if self.include_metadata else None
        return found

    def with_directory(self, directory: Path) -> Self:
        found = self.model_copy()
        found._notes = directory / "schemas.json"
        return found

    def freeze(self, spark: SparkSession, *, again: bool) -> Self:
        book = self._require_cluster().schemas
        if book is None or self.data_format != "avro":
            return self
        self._schemas()
        self._key_schemas()
        found = self.model_copy()
        found._cluster = replace(self._require_cluster(), schemas=book.freeze(self._notes))
        return found

    @property
    def restart_reason(self) -> str | None:
        book = self._require_cluster().schemas
        return None if book is None else book.restart_reason

    def with_columns(self, columns: Columns) -> Self:
        known = {c.name: c.type for c in columns if c.type is not None and c.name != OP}
        has_operation = any(c.name == OP for c in columns)
        schema = known if self.data_format == "json" else None
        return self.model_copy(update={"schema_": schema, "operation": has_operation})

    def known_columns(self) -> Columns | None:
        if self.schema_ is None:
            return None
        metadata = decode.METADATA_TYPES if self.include_metadata else {}
        return tuple(Column(name, kind) for name, kind in {**self.schema_, **metadata}.items())

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        return self._rows(self._stream(spark, name))

    def read_in_order(self, spark: SparkSession, name: str) -> DataFrame:
        """In the order of offsets. Between partitions there is none."""
        return self._rows(add_order(self._stream(spark, name)), *ORDER)

    def reread(
        self, spark: SparkSession, name: str, parts: Mapping[str, PartRead], *, ordered: bool = False
    ) -> DataFrame | None:
        part = parts.get(name)
        if part is None or part.after is None:
            return None
        found = with_origin(self._read_range(spark, json.loads(part.before or "{}"), json.loads(part.after)), ORIGIN)
        return self._rows(add_order(found), ORIGIN, *ORDER) if ordered else self._rows(found, ORIGIN)

    def decode_records(self, records: DataFrame) -> DataFrame | None:
        return self._rows(with_origin(records, ORIGIN), ORIGIN)

    def newer_rows(self, spark: SparkSession, places: Mapping[int, int], since_ms: int) -> DataFrame | None:
        from penstock.clients.kafka.admin import KafkaAdmin

        admin = KafkaAdmin(self._require_cluster().kafka)
        first, ends = admin.ends([self.topic], earliest=True), admin.ends([self.topic])
        is_whole = all(
            first.get((self.topic, number), 0) <= offset + 1 <= ends.get((self.topic, number), 0)
            for number, offset in places.items()
        )
        if not is_whole:
            return None
        since = {number: at for (_, number), at in admin.offsets_since([self.topic], since_ms).items()}
        before = {str(number): places[number] + 1 if number in places else at for number, at in since.items()}
        after = {str(number): max(end, int(before.get(str(number), 0))) for (_, number), end in ends.items()}
        found = self._read_range(spark, {self.topic: before}, {self.topic: after})
        return self._rows(with_origin(found, ORIGIN), ORIGIN)

    def peek(self, spark: SparkSession) -> DataFrame:
        from pyspark.sql import functions as f

        rows = self._rows(self._table(spark, self._options()))
        return rows.where(f.col(ERROR).isNull()).drop(ERROR)

    def check(self) -> None:
        from penstock.clients.kafka.admin import KafkaAdmin

        found = KafkaAdmin(self._require_cluster().kafka).topics()
        if self.topic not in found:
            servers = self._require_cluster().kafka.servers
            raise ServiceError("topic-missing", f"Kafka at {servers} has no topic `{self.topic}`")
        if self.data_format == "avro":
            self._schemas()
            self._key_schemas()

    def _rows(self, found: DataFrame, *kept: str) -> DataFrame:
        """Rows, what is wrong with them, and these columns of theirs."""
        if self._early is not None:
            register_row_functions(found.sparkSession, self._early)
            found = decode.filter_by_metadata(found, self._early)
        decoded = self._decode_value(found.sparkSession)
        shape = Shape(self.primary_key, self.operation, self.include_metadata, self._key_schemas(), self.topic)
        return decode.decode_records(found, decoded, shape, ERROR, kept)

    def _decode_value(self, spark: SparkSession) -> DecodedValue:
        match self.data_format:
            case "json" if self.envelope is not None:
                return decode.json_envelope_value(self._check_names(self._declared_columns()))
            case "json":
                return decode.json_value(self._check_names(self.schema_ or self._found_columns(spark)))
            case "raw":
                return decode.raw_value()
            case "avro" if self.envelope is not None:
                return decode.unwrap_envelope(avro_value(self._schemas(), decode.ENVELOPE, decode.ROW_AT))
            case "avro":
                return avro_value(self._schemas())

    def _check_names(self, columns: dict[str, str]) -> dict[str, str]:
        """Columns of JSON, each of which can be told from the others."""
        if wrong := invalid_names_error(columns, f"topic `{self.topic}`", decode.RENAMING):
            raise wrong
        return columns

    def _declared_columns(self) -> dict[str, str]:
        if self.schema_ is None:
            text = f"the columns of `{self.topic}` must be declared: they stand in an envelope"
            raise ServiceError("schema-unknown", text, hint="give them in `schema`")
        return self.schema_

    def _schemas(self) -> AvroSchemas:
        """The schemas of its records; one that was given another number is found by that."""
        book = self._require_cluster().schemas
        if book is None:
            hint = "name it in `runtime.schema_registry`"
            raise ServiceError("schema-unknown", f"`{self.topic}` is Avro, and there is no schema registry", hint=hint)
        known = book.schemas(self.topic, self.subject, self.schema_version)
        for override in self.schema_id_overrides:
            if override.to not in known.writers:
                book.learn(override.to)
        known = book.schemas(self.topic, self.subject, self.schema_version)
        for override in self.schema_id_overrides:
            if override.to not in known.writers:
                text = f"the schema registry has no schema in Avro of the number {override.to}"
                raise ServiceError("schema-unknown", text, hint=f"see `schema_id_overrides` of `{self.topic}`")
        renamed = {o.from_: known.writers[o.to] for o in self.schema_id_overrides}
        whole = self._only is None or self.envelope is not None
        reader = known.reader if whole else select_fields(known.reader, self._only or ())
        return replace(known, reader=reader, writers={**known.writers, **renamed})

    def _key_schemas(self) -> WriterSchemas | None:
        """The schemas of its keys, where the registry is known to be there, and keys are looked at."""
        book = self._require_cluster().schemas
        if book is None or self.data_format != "avro" or not (self.primary_key and self.operation):
            return None
        return book.key_schemas(self.topic)

    def _found_columns(self, spark: SparkSession) -> dict[str, str]:
        """The columns of some records, where nobody has said what they are."""
        first = self._table(case_sensitive_session(spark), self._options()).select("value").limit(_SAMPLE)
        found = decode.json_columns(first)
        if not found:
            hint = "declare the columns, or put a record into it"
            raise ServiceError(
                "schema-unknown", f"the topic `{self.topic}` has no columns declared and no JSON objects", hint=hint
            )
        return found

    def _stream(self, spark: SparkSession, name: str) -> DataFrame:
        reader = spark.readStream.name(name).format("kafka").options(**self._options(), subscribe=self.topic)
        reader = reader.options(**self._start_options())
        if self.max_offsets_per_trigger is not None:
            reader = reader.option("maxOffsetsPerTrigger", self.max_offsets_per_trigger)
        if self._split:  # a partition is read by several cores at once, and loses its order
            reader = reader.option("minPartitions", spark.sparkContext.defaultParallelism)
        return reader.load()

    def _start_options(self) -> dict[str, str]:
        given = self.starting_offsets
        if isinstance(given, dict):
            from penstock.clients.kafka.admin import KafkaAdmin

            self.check()
            partitions = KafkaAdmin(self._require_cluster().kafka).topics()[self.topic].partitions
            places = {str(number): given.get(number, _EARLIEST) for number in range(partitions)}
            return {"startingOffsets": json.dumps({self.topic: places})}
        if given.isdigit():
            return {"startingTimestamp": given, "startingOffsetsByTimestampStrategy": "latest"}
        return {"startingOffsets": given}

    def _read_range(self, spark: SparkSession, before: dict[str, Any], after: dict[str, Any]) -> DataFrame:
        """The records from one position to another; a partition that was not there before is read from its start."""
        begun = {
            topic: {number: before.get(topic, {}).get(number, _EARLIEST) for number in ends}
            for topic, ends in after.items()
        }
        partitions = {topic: [int(number) for number in ends] for topic, ends in after.items()}
        places = {"startingOffsets": json.dumps(begun), "endingOffsets": json.dumps(after)}
        reader = spark.read.format("kafka").options(**self._options(), **places, assign=json.dumps(partitions))
        return reader.load()

    def _table(self, spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
        return spark.read.format("kafka").options(**options, subscribe=self.topic).load()

    def _options(self) -> dict[str, str]:
        headers = {"includeHeaders": "true"} if self.operation else {}
        own = {"kafka.max.poll.records": _AT_ONCE, "kafka.isolation.level": "read_committed"}
        return {**own, **self._require_cluster().kafka.spark_options(), **headers}

    def _require_cluster(self) -> Cluster:
        assert self._cluster is not None
        return self._cluster
