"""Tables of PostgreSQL: written by sinks, and looked up by streams."""

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
    """Writes a table of PostgreSQL, which is made if it is not there.

    With a primary key, rows replace those of the same key, and rows marked as deletes take them out; of several rows of
    a key in a batch the last one counts. Without one, rows are added: a log of changes, with `_gs_op`.
    """

    type: Literal["postgres"] = "postgres"
    delivery = "exactly once: rows, and a note of their batch in `penstock_ledger`, are one transaction"

    located_by = ("database", "schema", "table")
    table: str = Field(min_length=1)
    """The table's name."""
    schema_: str = Field("public", alias="schema", min_length=1)
    """The schema it is in; made if it is not there."""
    on_conflict: Literal["update", "nothing"] = "update"
    """What becomes of a row whose key is there: it replaces the other, or is left out, so that the first one stays."""
    update_where: dict[str, Comparison] = {}
    """Conditions on a row that replaces another, as new against old: `{version: ">"}` lets only newer ones through."""
    schema_change: Literal["fail", "evolve", "ignore"] = "fail"
    """What to do with a column that the table does not have: stop, add it to the table, or leave it out."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return replace(super().capabilities, named_columns={f"update_where.{name}": name for name in self.update_where})

    @property
    def _writer(self) -> TableWriter:
        return TableWriter(
            self._server,
            QualifiedTable(self.schema_, self.table),
            self.primary_key,
            self.on_conflict,
            self.update_where,
            self.schema_change,
        )


class PostgresTable(PostgresAddress, Source):
    """Reads a table of PostgreSQL, for streams that look rows up in it. Every batch sees it as it is then."""

    type: Literal["postgres"] = "postgres"
    table_only = True
    packages: ClassVar[tuple[Package, ...]] = POSTGRES

    table: str = Field(min_length=1)
    """The table's name."""
    schema_: str = Field("public", alias="schema", min_length=1)
    """The schema it is in."""

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
        """Spark would say it with a hundred lines, and leave out the reason."""
        with self.server.connect() as db:
            if not columns_of(db, QualifiedTable(self.schema_, self.table)):
                raise ServiceError("table-mismatch", f"{self.server} has no table {self.schema_}.{self.table}")


_ADDRESS: Final = re.compile(
    r"jdbc:postgresql://(?P<host>[^:/?]+)(?::(?P<port>\d+))?/(?P<database>[^?]+)(?:\?(?P<more>.*))?"
)


class JdbcSink(Sink):
    """Writes a table of PostgreSQL with the settings of Kafka Connect's JDBC sink, without Kafka Connect.

    It is taken where `runtime.connect` is not configured. Other databases need Kafka Connect.
    """

    type: Literal["jdbc-sink"] = "jdbc-sink"
    delivery = PostgresSink.delivery
    located_by = ("table.name.format",)
    own_labels: ClassVar = frozenset({"table"})
    inert: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "batch_size",
            "max_retries",
            "retry_backoff_ms",
            "key_converter",
            "value_converter",
            "schemas_enable",
            "tasks_max",
        ),
        "it belongs to Kafka Connect",
    )

    url: str = Field(alias="connection.url")
    """`jdbc:postgresql://host:port/database`."""
    user: str = Field(alias="connection.user")
    """The user."""
    password: Secret = Field(SecretStr(""), alias="connection.password")
    """The password; never shown again."""
    table: str | None = Field(None, alias="table.name.format")
    """The table, with its schema before a dot if it is not `public`. That of the model's name if left out."""
    insert_mode: Literal["insert", "upsert"] = Field("insert", alias="insert.mode")
    """Whether rows are added, or replace those of the same key."""
    pk_mode: Literal["none", "record_key", "record_value"] = Field("none", alias="pk.mode")
    """Where Kafka Connect finds the key. Here it is always a column."""
    pk_fields: Key = Field((), alias="pk.fields")
    """The columns of the key; those of the model if left out."""
    auto_create: bool = Field(False, alias="auto.create")
    """Whether the table is made if it is not there."""
    auto_evolve: bool = Field(False, alias="auto.evolve")
    """Whether the table gets columns that it lacks."""
    delete_enabled: bool = Field(False, alias="delete.enabled")
    """Whether deletes take rows out. They are passed over otherwise."""
    batch_size: Whole | None = Field(None, alias="batch.size")
    """It changes nothing here."""
    max_retries: Whole | None = Field(None, alias="max.retries")
    """It changes nothing here."""
    retry_backoff_ms: Whole | None = Field(None, alias="retry.backoff.ms")
    """It changes nothing here."""
    key_converter: str | None = Field(None, alias="key.converter")
    """It changes nothing here."""
    value_converter: str | None = Field(None, alias="value.converter")
    """It changes nothing here."""
    schemas_enable: bool | None = Field(None, alias="value.converter.schemas.enable")
    """It changes nothing here."""
    tasks_max: Whole | None = None
    """It changes nothing here."""

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
        server = PostgresServer(
            found["host"],
            int(found["port"] or 5432),
            self.user,
            self.password.get_secret_value(),
            found["database"],
            more.get("sslmode", "prefer"),
            more.get("sslrootcert"),
        )
        if (wait := more.get("connectTimeout", "0")).isdecimal() and int(wait):
            server = replace(server, patience_seconds=int(wait))
        key = self.capabilities.replace_key
        if self.insert_mode == "upsert" and not key:
            hint = "name its columns in `pk.fields`, or give the model a `key`"
            raise PlanRefused("not-runnable-here", "`insert.mode: upsert` needs a key, and there is none", hint=hint)
        schema, _, table = (self.table or self.from_.rpartition(".")[2]).rpartition(".")
        return TableWriter(
            server,
            QualifiedTable(schema or more.get("currentSchema", "public"), table),
            key,
            schema_change="evolve" if self.auto_evolve else "fail",
            create=self.auto_create,
        )
