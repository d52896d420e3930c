"""Decodes the records of a topic into rows, for one query that reads a Kafka source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from penstock.clients.clusters import Cluster
from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.clients.kafka import decode
from penstock.clients.kafka.avro import AvroSchemas, avro_value, select_fields
from penstock.clients.kafka.confluent_wire import WriterSchemas
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.kafka.decode import DecodedValue, Shape
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.clients.rows.reserved_columns import case_sensitive_session, invalid_names_error
from penstock.connectors.contract import ERROR, ReadRequest, Snapshot
from penstock.errors import QueryFailed, ServiceError
from penstock.row_columns import OP
from penstock.sql.pushdown.source_needs import restrict_condition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.connectors.kafka import KafkaSource

_SAMPLE: Final = 1000
"""The number of records that are inspected if columns are not declared."""
_AT_ONCE: Final = "10000"
"""The number of records that Kafka's client returns per poll. With its default of 500, Spark was a third slower; memory
is bounded by the fetch size."""


def kafka_options(kafka: KafkaCluster, *, headers: bool) -> dict[str, str]:
    """Return the options of every Kafka reader, with the `headers` of records if they are needed."""
    own = {"kafka.max.poll.records": _AT_ONCE, "kafka.isolation.level": "read_committed"}
    return {**own, **kafka.spark_options(), **({"includeHeaders": "true"} if headers else {})}


@dataclass(frozen=True, slots=True)
class KnownSchemas(Snapshot):
    """The schemas that the registry had when a query began."""

    book: SchemaCache

    @property
    def restart_reason(self) -> QueryFailed | None:
        return self.book.restart_reason


@dataclass(frozen=True, slots=True)
class KafkaRows:
    """Decodes the records of a source for a request."""

    source: KafkaSource
    cluster: Cluster
    request: ReadRequest

    @property
    def has_operation(self) -> bool:
        columns = self.request.columns
        return self.source.operation if columns is None else any(column.name == OP for column in columns)

    def rows(self, records: DataFrame, *kept: str) -> DataFrame:
        """Decode records into rows with the column `ERROR`, and keep these columns of the records."""
        source, condition = self.source, self.request.condition
        early = restrict_condition(condition, decode.METADATA) if condition and source.include_metadata else None
        if early is not None:
            register_row_functions(records.sparkSession, early)
            records = decode.filter_by_metadata(records, early)
        decoded = self._decode_value(records.sparkSession)
        shape = Shape(source.primary_key, self.has_operation, source.include_metadata, self.key_schemas(), source.topic)
        return decode.decode_records(records, decoded, shape, ERROR, kept)

    def table(self, spark: SparkSession) -> DataFrame:
        """Read all current records."""
        options = kafka_options(self.cluster.kafka, headers=self.has_operation)
        return spark.read.format("kafka").options(**options, subscribe=self.source.topic).load()

    def schemas(self) -> AvroSchemas:
        """Return the schemas of its records, with the configured replacements of schema ids."""
        source, book = self.source, self._book
        if book is None:
            text = f"`{source.topic}` is Avro, and there is no schema registry"
            raise ServiceError("schema-unknown", text, hint="name it in `runtime.schema_registry`")
        known = book.schemas(source.topic, source.subject, source.schema_version)
        for override in source.schema_id_overrides:
            if override.to not in known.writers:
                book.learn(override.to)
        known = book.schemas(source.topic, source.subject, source.schema_version)
        for override in source.schema_id_overrides:
            if override.to not in known.writers:
                text = f"the schema registry has no Avro schema with the id {override.to}"
                raise ServiceError("schema-unknown", text, hint=f"see `schema_id_overrides` of `{source.topic}`")
        renamed = {o.from_: known.writers[o.to] for o in source.schema_id_overrides}
        reader = known.reader
        if self.request.only is not None and source.envelope is None:
            key = map(str.lower, source.primary_key)
            reader = select_fields(known.reader, self.request.only.union(key))
        return replace(known, reader=reader, writers={**known.writers, **renamed})

    def key_schemas(self) -> WriterSchemas | None:
        """Return the schemas of its keys; None if there is no registry, or if keys are not decoded."""
        source, book = self.source, self._book
        if book is None or source.data_format != "avro" or not (source.primary_key and self.has_operation):
            return None
        return book.key_schemas(source.topic)

    @property
    def _book(self) -> SchemaCache | None:
        found = self.request.snapshot
        return found.book if isinstance(found, KnownSchemas) else self.cluster.schemas

    def _decode_value(self, spark: SparkSession) -> DecodedValue:
        match self.source.data_format:
            case "json" if self.source.envelope is not None:
                return decode.json_envelope_value(self._check_names(self._envelope_columns()))
            case "json":
                return decode.json_value(self._check_names(self._declared or self._found_columns(spark)))
            case "raw":
                return decode.raw_value()
            case "avro" if self.source.envelope is not None:
                return decode.unwrap_envelope(avro_value(self.schemas(), decode.ENVELOPE, decode.ROW_AT))
            case "avro":
                return avro_value(self.schemas())

    @property
    def _declared(self) -> dict[str, str] | None:
        """The declared columns of JSON: those of the request, else those of the source."""
        if self.request.columns is None:
            return self.source.schema_
        return {c.name: c.type for c in self.request.columns if c.type is not None and c.name != OP}

    def _check_names(self, columns: dict[str, str]) -> dict[str, str]:
        """Refuse columns of JSON whose names SQL cannot tell apart, or which are reserved."""
        if wrong := invalid_names_error(columns, f"topic `{self.source.topic}`", decode.RENAMING):
            raise wrong
        return columns

    def _envelope_columns(self) -> dict[str, str]:
        if (declared := self._declared) is None:
            text = f"the columns of `{self.source.topic}` must be declared: they are inside an envelope"
            raise ServiceError("schema-unknown", text, hint="give them in `schema`")
        return declared

    def _found_columns(self, spark: SparkSession) -> dict[str, str]:
        """Infer the columns from some records if they are not declared."""
        found = decode.json_columns(self.table(case_sensitive_session(spark)).select("value").limit(_SAMPLE))
        if not found:
            text = f"the topic `{self.source.topic}` has no columns declared and no JSON objects"
            raise ServiceError("schema-unknown", text, hint="declare the columns, or put a record into it")
        return found
