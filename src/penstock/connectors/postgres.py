"""PostgreSQL tables as sinks, and as lookup tables for streams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import parse_qsl

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from penstock.batch import BatchRef
from penstock.clients.jvm.maven import Package
from penstock.clients.jvm.packages import POSTGRES
from penstock.clients.postgres.connection_fields import PostgresAddress
from penstock.clients.postgres.server import PostgresServer
from penstock.clients.postgres.sink.writer import TableWriter
from penstock.clients.postgres.tables import QualifiedTable, columns_of
from penstock.config import Key, Secret, Whole, unknown_word_error
from penstock.connectors.contract import KeepRows, ReadRequest, Sink, SinkCapabilities, Source, WriteResult
from penstock.connectors.table_sink import TableSink
from penstock.errors import PlanRefused, ServiceError
from penstock.row_columns import OP
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_COMPARISONS: Final = ("=", ">", ">=", "<", "<=", "!=", "<>")


def _comparison(value: object) -> object:
    if value not in _COMPARISONS:
        text: Final = "update_where validation failed for sink '{node}': `{given}` is not one of {words}"
        raise unknown_word_error(text, value, _COMPARISONS)
    return value


Comparison = Annotated[Literal["=", ">", ">=", "<", "<=", "!=", "<>"], BeforeValidator(_comparison)]


class PostgresSink(TableSink):
    """Writes a PostgreSQL table, which is created if it does not exist.

    With a primary key, rows are upserted by key, and rows marked as deletes are deleted; of several rows of a key in a
    batch, the last one is applied. Without a key, rows are appended as a changelog, with `_gs_op`.
    """

    type: Literal["postgres"] = "postgres"
    delivery = "exactly once: rows and the entry of their batch in `penstock_ledger` are one transaction"

    located_by = ("database", "schema", "table")
    table: str = Field(min_length=1)
    """The name of the table."""
    schema_: str = Field("public", alias="schema", min_length=1)
    """The schema of the table. It is created if it does not exist."""
    on_conflict: Literal["update", "nothing"] = "update"
    """What happens to a row whose key exists: `update` replaces the existing row, `nothing` keeps it."""
    update_where: dict[str, Comparison] = {}
    """Conditions for replacing a row, new value against old: `{version: ">"}` accepts only newer rows."""
    schema_change: Literal["fail", "evolve", "ignore"] = "fail"
    """What to do with a column that the table lacks: `fail`, add it (`evolve`), or `ignore` it."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return replace(super().capabilities, named_columns={f"update_where.{name}": name for name in self.update_where})

    @property
    def _writer(self) -> TableWriter:
        table, change = QualifiedTable(self.schema_, self.table), self.schema_change
        return TableWriter(self._server, table, self.primary_key, self.on_conflict, self.update_where, change)


class PostgresTable(PostgresAddress, Source):
    """Reads a PostgreSQL table that streams look up rows in. Every batch sees its content at that time."""

    type: Literal["postgres"] = "postgres"
    table_only = True
    packages: ClassVar[tuple[Package, ...]] = POSTGRES

    table: str = Field(min_length=1)
    """The name of the table."""
    schema_: str = Field("public", alias="schema", min_length=1)
    """The schema of the table."""

    def read(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        raise PlanRefused("not-runnable-here", "a table of PostgreSQL is looked up, and no stream")

    def peek(self, spark: SparkSession, request: ReadRequest) -> DataFrame:
        self.check()
        name = str(QualifiedTable(self.schema_, self.table))
        login = {"user": self.user, "password": self.password.get_secret_value(), "sslmode": self.sslmode}
        address = f"jdbc:postgresql://{self.host}:{self.port}/{self.database}"
        options = {"url": address, "dbtable": name, "driver": "org.postgresql.Driver", **login}
        return spark.read.format("jdbc").options(**options, ApplicationName="penstock").load()

    def check(self) -> None:
        """Check that the table exists, because Spark's own error takes a hundred lines and lacks the reason."""
        with self.server.connect() as db:
            if not columns_of(db, QualifiedTable(self.schema_, self.table)):
                raise ServiceError("table-mismatch", f"{self.server} has no table {self.schema_}.{self.table}")


_ADDRESS: Final = re.compile(
    r"jdbc:postgresql://(?P<host>[^:/?]+)(?::(?P<port>\d+))?/(?P<database>[^?]+)(?:\?(?P<more>.*))?"
)


class JdbcSink(Sink):
    """Writes a PostgreSQL table with the settings of Kafka Connect's JDBC sink, without Kafka Connect.

    It is used if `runtime.connect` is not configured. Other databases require Kafka Connect.
    """

    type: Literal["jdbc-sink"] = "jdbc-sink"
    delivery = PostgresSink.delivery
    located_by = ("table.name.format",)
    own_labels: ClassVar = frozenset({"table"})
    inert: ClassVar[Mapping[str, str]] = dict.fromkeys((
        "batch_size", "max_retries", "retry_backoff_ms", "key_converter", "value_converter", "schemas_enable",
        "tasks_max",
    ), "it belongs to Kafka Connect")  # fmt: skip

    url: str = Field(alias="connection.url")
    """`jdbc:postgresql://host:port/database`."""
    user: str = Field(alias="connection.user")
    """The user name."""
    password: Secret = Field(SecretStr(""), alias="connection.password")
    """The password. It is never shown."""
    table: str | None = Field(None, alias="table.name.format")
    """The table, with its schema before a dot if that is not `public`. Default: the name of the model."""
    insert_mode: Literal["insert", "upsert"] = Field("insert", alias="insert.mode")
    """Whether rows are inserted, or upserted by key."""
    pk_mode: Literal["none", "record_key", "record_value"] = Field("none", alias="pk.mode")
    """Where Kafka Connect finds the key. Here it is always in columns."""
    pk_fields: Key = Field((), alias="pk.fields")
    """The columns of the key. Default: the key of the model."""
    auto_create: bool = Field(False, alias="auto.create")
    """Whether the table is created if it does not exist."""
    auto_evolve: bool = Field(False, alias="auto.evolve")
    """Whether missing columns are added to the table."""
    delete_enabled: bool = Field(False, alias="delete.enabled")
    """Whether deletes are applied. Otherwise they are ignored."""
    batch_size: Whole | None = Field(None, alias="batch.size")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    max_retries: Whole | None = Field(None, alias="max.retries")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    retry_backoff_ms: Whole | None = Field(None, alias="retry.backoff.ms")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    key_converter: str | None = Field(None, alias="key.converter")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    value_converter: str | None = Field(None, alias="value.converter")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    schemas_enable: bool | None = Field(None, alias="value.converter.schemas.enable")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    tasks_max: Whole | None = None
    """Accepted, but has no effect: it belongs to Kafka Connect."""

    @field_validator("url")
    @classmethod
    def _is_postgres(cls, url: str) -> str:
        if not _ADDRESS.fullmatch(url):
            raise ValueError(
                "without Kafka Connect only PostgreSQL is written: `jdbc:postgresql://host:port/database`;"
                " configure `runtime.connect` for other databases"
            )
        return url

    @model_validator(mode="after")
    def _deletes_by_key(self) -> Self:
        if self.delete_enabled and self.insert_mode != "upsert":
            raise ValueError("`delete.enabled` needs `insert.mode: upsert`, by whose key rows are deleted")
        return self

    @property
    def capabilities(self) -> SinkCapabilities:
        if self.insert_mode == "insert":
            return SinkCapabilities(takes_int256=True)
        key = self.pk_fields or self.primary_key
        return SinkCapabilities(last_row_wins=True, replace_key=key, takes_int256=True)

    def check(self) -> None:
        with self._writer.server.connect():
            pass

    def check_rows(self, columns: Columns | None) -> None:
        self._writer.check(columns)

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return PostgresSink.describe_emptying(config)

    def empty(self) -> None:
        self._writer.empty()

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        return WriteResult(self._writer.write(self._drop_deletes(batch), ref))

    def trial(self, rows: DataFrame, ref: BatchRef, place: str | None = None) -> Iterator[tuple[int, str]] | None:
        return self._writer.trial(self._drop_deletes(rows), ref, place)

    def cancel(self) -> None:
        self._writer.server.cancel()

    def _drop_deletes(self, rows: DataFrame) -> DataFrame:
        if self.delete_enabled or OP not in rows.columns:
            return rows
        return rows.where(f"{OP} IS NULL OR lower({OP}) <> 'd'").drop(OP)

    @property
    def _writer(self) -> TableWriter:
        found = _ADDRESS.fullmatch(self.url)
        assert found is not None
        more = dict(parse_qsl(found["more"] or ""))
        host, port, mode = found["host"], int(found["port"] or 5432), more.get("sslmode", "prefer")
        login = (self.user, self.password.get_secret_value())
        server = PostgresServer(host, port, *login, found["database"], mode, more.get("sslrootcert"))
        if (wait := more.get("connectTimeout", "0")).isdecimal() and int(wait):
            server = replace(server, patience_seconds=int(wait))
        key = self.capabilities.replace_key
        if self.insert_mode == "upsert" and not key:
            hint = "name its columns in `pk.fields`, or give the model a `key`"
            raise PlanRefused("not-runnable-here", "`insert.mode: upsert` needs a key, and there is none", hint=hint)
        schema, _, table = (self.table or self.from_.rpartition(".")[2]).rpartition(".")
        name = QualifiedTable(schema or more.get("currentSchema", "public"), table)
        change: Literal["evolve", "fail"] = "evolve" if self.auto_evolve else "fail"
        return TableWriter(server, name, key, schema_change=change, create=self.auto_create)
