"""Redis hashes as a sink."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from penstock.batch import BatchRef
from penstock.clients.extras import require
from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.rows.row_op import row_operation
from penstock.config import NODE, Duration, Key, Secret, Whole
from penstock.connectors.contract import KeepRows, Sink, SinkCapabilities, WriteResult
from penstock.connectors.redis.hashes import REPORT, WriteHashes
from penstock.connectors.redis.server import RedisServer, Session
from penstock.errors import PlanRefused, QueryFailed, ServiceError
from penstock.row_columns import OP
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.columns import Columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_LEDGER_SECS: Final = 30 * 86_400
"""How long the ledger remembers the last batch."""


class RedisSink(Sink):
    """Writes one Redis hash per primary key, with a field for each column.

    A row sets the fields of its hash; a null removes its field, and a delete removes the hash. Values are strings.
    """

    type: Literal["redis"] = "redis"
    delivery = (
        "effectively once, as far as the last state of each key goes: a batch that was written is recognised by its "
        "ledger key and not written again; one that was interrupted is written again, and sets the same fields. Until "
        "then readers may see a part of it"
    )
    located_by = ("url", "database", "key_prefix")
    inert: ClassVar[Mapping[str, str]] = {"parallelism": Sink.inert["parallelism"]}

    url: str = "redis://127.0.0.1:6379"
    """The server: `redis://host:port`, or `rediss://host:port` with TLS. The password has a field of its own."""
    user: str | None = None
    """The user name, if the server has users (ACL)."""
    password: Secret = SecretStr("")
    """The password, best as `${NAME}`. It is never shown."""
    ca_file: str | None = None
    """A file with the CA certificate that signed the server's, for `rediss://`. Default: the CAs of the machine."""
    database: Whole = Field(0, ge=0)
    """The number of the database."""
    key_prefix: str = Field(min_length=1)
    """The prefix of the name of every hash: `orders` gives `orders:42`. The parts of a key with several columns are
    joined by `:`, with `\\` before each `:` and `\\` in them."""
    primary_key: Key = ()
    """The columns of the key, separated by commas. A row with a null in one of them is rejected."""
    ttl_secs: Whole | None = Field(None, ge=1)
    """The number of seconds after its last row when a hash expires. Default: never."""
    batch_size: Whole = Field(1000, ge=1)
    """The maximum number of rows per transaction."""
    timeout: Duration = Field(10_000, ge=1)
    """The timeout of an answer."""

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("redis", "rediss") and parts.hostname and parts.port != 0
        except ValueError:
            usable = None
        if not usable or parts.path.strip("/") or parts.query or "@" in parts.netloc:
            raise ValueError(
                "an address looks like `redis://host:6379` or `rediss://host:6379`; user, password and database have"
                " fields of their own"
            )
        return url

    @property
    def capabilities(self) -> SinkCapabilities:
        message = f"redis sink '{NODE}' requires a primary key, but none could be resolved"
        return SinkCapabilities.by_key(self.primary_key, key_message=message, compaction_key=self.primary_key)

    def check(self) -> None:
        with self._session() as client:
            client.ping()

    def check_rows(self, columns: Columns | None) -> None:
        self.check()
        missing = set(self.primary_key) - {column.name for column in columns or ()}
        if columns is not None and missing:
            raise ServiceError("table-mismatch", f"rows have no column `{min(missing)}`, which is part of the key")

    @classmethod
    def describe_emptying(cls, config: Mapping[str, Any]) -> str | None:
        return f"all hashes whose names begin with `{config['key_prefix']}:` are deleted, whoever wrote them"

    def empty(self) -> None:
        begin = "".join(f"\\{c}" if c in "*?[]\\" else c for c in f"{self.key_prefix}:")
        with self._session() as client:
            found = client.scan_iter(f"{begin}*", count=1000, _type="hash")
            while some := list(islice(found, 1000)):
                client.unlink(*some)

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        if not self.primary_key:
            raise PlanRefused("missing-field", "a redis sink needs a primary key", hint="add `primary_key: …`")
        ledger = f"penstock:ledger:{self.key_prefix}:{ref.query}/{ref.output}/{ref.checkpoint_id}"
        entry = f"{ref.batch_id} {hashlib.sha256(json.dumps(ref.offsets).encode()).hexdigest()}"
        with self._session() as client:
            before = (client.get(ledger) or b"").decode()  # type: ignore[union-attr]
        if before == entry:
            batch.write.format("noop").mode("append").save()
            return WriteResult(0)
        if before.partition(" ")[0] == str(ref.batch_id):
            raise QueryFailed("batch-conflict", f"batch {ref.batch_id} of `{ref.query}` was written from other input")
        on_refusal = self.on_error if keep else self.refusal_action
        names = tuple(name for name in batch.columns if name != OP)
        kinds = tuple(_is_json(batch.schema[name].dataType) for name in names)
        write = WriteHashes(self._server, self.key_prefix, names, kinds, self.ttl_secs, self.batch_size, on_refusal)
        reports = self._texts(batch, names).mapInArrow(write, REPORT).collect()
        for failure in (report["failure"] for report in reports if report["failure"] is not None):
            raise ServiceError.received(failure) or QueryFailed("rows-refused", failure)
        rejected = [(report["value"], report["message"]) for report in reports if report["value"] is not None]
        if rejected and keep is not None:
            keep(batch.sparkSession.createDataFrame(rejected, "value STRING, message STRING"))
        with self._session() as client:
            client.set(ledger, entry, ex=_LEDGER_SECS)
        return WriteResult(sum(r["rows"] or 0 for r in reports), sum(r["refused"] or 0 for r in reports))

    def _texts(self, batch: DataFrame, names: Sequence[str]) -> DataFrame:
        """Return operation, key and columns as text. They are renamed: Spark cannot pass every name to Python."""
        texts = {name: _text(f.col(quote_spark_identifier(name)), batch.schema[name].dataType) for name in names}
        parts = [texts[name] for name in self.primary_key]
        if len(parts) > 1:
            parts = [f.regexp_replace(part, r"([\\:])", r"\\$1") for part in parts]
        key = f.concat(*(part for at, each in enumerate(parts) for part in ((f.lit(":"), each) if at else (each,))))
        columns = [texts[name].alias(f"c{at}") for at, name in enumerate(names)]
        return batch.select(row_operation(batch).alias("op"), key.alias("key"), *columns)

    def _session(self) -> Session:
        return Session(self._server)

    @property
    def _server(self) -> RedisServer:
        require("redis", extra="redis")
        password = self.password.get_secret_value() or None
        return RedisServer(self.url, self.database, self.user, password, self.ca_file, self.timeout / 1000)


def _is_json(kind: DataType) -> bool:
    """Whether the text of a value of this type is JSON already."""
    from pyspark.sql.types import ArrayType, BooleanType, MapType, NumericType, StructType, VariantType

    return isinstance(kind, ArrayType | BooleanType | MapType | NumericType | StructType | VariantType)


def _text(value: Column, kind: DataType) -> Column:
    """Convert a value to text: times in UTC to the microsecond, bytes in base64, lists, maps and structs as JSON."""
    from pyspark.sql import types as t

    match kind:
        case t.BinaryType():
            return f.base64(value)
        case t.TimestampType() | t.TimestampNTZType():
            whole = f.to_json(f.struct(value.alias("v")), JSON_OPTIONS)  # {"v":"…"}
            return f.when(value.isNotNull(), f.substring(whole, f.lit(7), f.length(whole) - 8))
        case t.ArrayType() | t.MapType() | t.StructType() | t.VariantType():
            return f.to_json(value, JSON_OPTIONS)
        case _:
            return value.cast("string")
