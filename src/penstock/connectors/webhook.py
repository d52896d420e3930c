"""HTTP endpoints as a sink for rows as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, field_validator, model_validator

from penstock.batch import BatchRef
from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.http.endpoint import CONNECT_SECS, Endpoint
from penstock.clients.rows.key_order import partition_in_order
from penstock.clients.rows.row_op import row_operation
from penstock.config import Duration, OnError, TextPattern, Whole
from penstock.connectors.contract import KeepRows, Remark, Sink, SinkCapabilities, WriteResult
from penstock.connectors.node import Parallelism
from penstock.errors import PlanRefused, ServiceError
from penstock.row_columns import OP
from penstock.settings import Settings
from penstock.spark_functions import f
from penstock.sql.parse.dialects import quote_spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from penstock.clients.http.sender import OnRefusal, Sender

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET: Final = TextPattern(
    "[A-Za-z0-9]+(_[A-Za-z0-9]+)*",
    "the name of a secret has letters (a to z, in either case) and digits, and single `_` between them",
)
_SHORTEST_SECRET: Final = 8
"""The minimum length of a header's value that may be a secret, and is masked in messages."""
_OURS: Final = frozenset({"content-length", "transfer-encoding", "connection", "idempotency-key"})


class WebhookSink(Sink):
    """Sends rows as JSON to an HTTP endpoint."""

    type: Literal["webhook"] = "webhook"
    delivery = "at least once: a batch that was interrupted is sent again, under the same `Idempotency-Key`"
    own_labels: ClassVar = frozenset({"url"})
    waives: ClassVar = {
        "a_replayed_batch_leaves_no_duplicates": "it is sent again, under the same `Idempotency-Key`",
        "a_batch_of_the_same_number_from_other_input_is_refused": "it keeps no ledger",
    }
    url: str
    """The URL that requests are sent to by POST: `http` or `https`."""
    headers: dict[str, str] = Field({}, repr=False)
    """Headers of every request. `Content-Type` is `application/json` unless it is set here."""
    secret_name: Annotated[str, _SECRET] | None = None
    """A secret header: its name is in the variable `PENSTOCK__HTTP_SECRET_HEADER__<NAME>`, its value in
    `PENSTOCK__HTTP_SECRET_VALUE__<NAME>`."""
    one_row_per_request: bool = False
    """Whether a request has one row, as an object, instead of a list of rows."""
    payload_version: Literal[0, 1] = 0
    """The format of a row: 0 is its columns and `_gs_op`, 1 is `{"metadata": {"op": …}, "data": {…}}`."""
    skip_on_error: bool = False
    """Whether to skip rows that the endpoint answers with an error. The same as `on_error: skip`."""
    on_error: OnError = "stop"
    """What to do with rows that the endpoint rejects: `stop` the query, `skip` them, or store them (`dead_letter`)."""
    batch_size: Whole | None = Field(None, ge=1)
    """The most rows per request. Default: the setting `external_http_handler.trigger_max_count`, which is 2000."""
    parallelism: Parallelism | None = None
    """The number of sending tasks. Default: the batch's partitions; with `primary_key`, Spark's shuffle partitions."""
    timeout: Duration | None = Field(None, ge=1)
    """The timeout of an answer. Default: the setting `external_http_handler.operator_timeout_sec`, 300 s."""
    retry_for: Duration = 60_000
    """How long a request is retried. Afterwards `run` retries the batch, and `run --once` fails."""
    _settings: Settings = PrivateAttr(Settings())

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = None
        if not usable or re.search(r"[\x00-\x20\x7f-\U0010ffff]", url):
            raise ValueError("an address looks like `https://example.com/path`, in plain characters without spaces")
        return url

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if wrong := _wrong_name(name) or _wrong_value(name, value):
                raise ValueError(wrong)
        return headers

    @model_validator(mode="after")
    def _check_refusal_settings(self) -> Self:
        if self.skip_on_error and self.on_error == "dead_letter":
            raise ValueError("`skip_on_error` skips rows, and `on_error: dead_letter` stores them: remove one")
        return self

    def remarks(self, settings: Settings) -> Iterator[Remark]:
        if self.secret_name is None:
            return
        header, value = self._secret(settings)
        if header is not None and header.lower() in map(str.lower, self.headers):
            text = f"cannot set both 'secret_name' and an explicit '{header}' header — remove one"
            yield Remark("given-twice", "secret_name", text)
        for variable, found in zip(self._variables, (header, value), strict=True):
            if found is None:
                text = f"the environment variable `{variable}` is not set"
                yield Remark("unset-variable", "secret_name", text, "set it before the pipeline runs", fatal=False)
        wrong = (header and _wrong_name(header), value and _wrong_value(header or "", value))
        for variable, said in zip(self._variables, wrong, strict=True):
            if said:
                yield Remark("invalid-value", "secret_name", said, f"see the environment variable `{variable}`")

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(duplicates=True)

    def with_settings(self, settings: Settings, name: str) -> Self:
        found = self.model_copy()
        found._settings = settings
        return found

    def check(self) -> None:
        Endpoint(self.url, {}, CONNECT_SECS, 0).check()

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        from penstock.clients.http.sender import MESSAGE, RESULT, ROW

        sender = self._sender(ref, self.on_error if keep else self.refusal_action)
        results = self._rows(batch).mapInArrow(sender, RESULT)
        if keep is None or sender.on_refusal != "dead_letter":
            return _sum_results(results.collect(), sender.endpoint, ref)
        results = results.persist()
        try:
            written = _sum_results(results.where(f.col(ROW).isNull()).collect(), sender.endpoint, ref)
            if written.refused:
                rejected = results.where(f.col(ROW).isNotNull())
                keep(rejected.select(f.col(ROW).alias("value"), f.col(MESSAGE)))
            return written
        finally:
            results.unpersist()

    def _rows(self, batch: DataFrame) -> DataFrame:
        """Return rows as JSON, encoded by Spark, with a hash of their keys."""
        from penstock.clients.http.sender import KEY, ROW

        op = row_operation(batch).alias(OP)
        columns = [f.col(quote_spark_identifier(name)) for name in batch.columns if name != OP]
        if self.payload_version == 0:
            whole = f.struct(*columns, op)
        else:
            whole = f.struct(f.struct(op.alias("op")).alias("metadata"), f.struct(*columns).alias("data"))
        row = f.to_json(whole, JSON_OPTIONS).alias(ROW)
        if not self.primary_key:
            rows = batch.select(row)
            return rows if self.parallelism is None else partition_in_order(rows, (), self.parallelism)
        by_key = partition_in_order(batch, self.primary_key, self.parallelism)
        return by_key.select(row, f.xxhash64(*map(quote_spark_identifier, self.primary_key)).alias(KEY))

    def _sender(self, ref: BatchRef, on_refusal: OnError) -> Sender:
        from penstock.clients.http.sender import Sender

        http = self._settings.external_http_handler
        rows = 1 if self.one_row_per_request else self.batch_size or http.trigger_max_count
        refusal: OnRefusal = "skip" if self.skip_on_error else on_refusal
        about = f"{ref.query}\n{ref.output}\n{ref.checkpoint_id}\n{ref.batch_id}"
        return Sender(self._endpoint(), about, rows, http.buffer_size, self.one_row_per_request, refusal)

    def _endpoint(self) -> Endpoint:
        secret = self._filled_secret()
        headers = {"Content-Type": "application/json", "Accept": "*/*", "User-Agent": "penstock"}
        said = {name.lower() for name in (*self.headers, *secret)}
        kept = {name: value for name, value in headers.items() if name.lower() not in said}
        timeout_ms = self.timeout or self._settings.external_http_handler.operator_timeout_sec * 1000
        masked = (*secret.values(), *(value for value in self.headers.values() if len(value) >= _SHORTEST_SECRET))
        sent = {**kept, **self.headers, **secret}
        return Endpoint(self.url, sent, timeout_ms / 1000, self.retry_for / 1000, masked)

    def _filled_secret(self) -> dict[str, str]:
        """Return the secret header as a dictionary; empty if none is configured."""
        if self.secret_name is None:
            return {}
        for remark in self.remarks(self._settings):
            raise PlanRefused(remark.code, remark.text, hint=remark.hint)
        header, value = self._secret(self._settings)
        assert header is not None
        assert value is not None
        return {header: value}

    def _secret(self, settings: Settings) -> tuple[str | None, str | None]:
        """Return name and value of the secret header, without the line break that files of secrets end with."""
        name = (self.secret_name or "").lower()
        header, value = settings.http_secret_header.get(name, ""), settings.http_secret_value.get(name)
        return header.strip() or None, None if value is None else value.get_secret_value().strip() or None

    @property
    def _variables(self) -> tuple[str, str]:
        name = (self.secret_name or "").upper()
        return f"PENSTOCK__HTTP_SECRET_HEADER__{name}", f"PENSTOCK__HTTP_SECRET_VALUE__{name}"


def _wrong_name(name: str) -> str | None:
    """Return why a header of this name cannot be sent."""
    if not _TOKEN.fullmatch(name):
        return f"the header `{name}` cannot be sent"
    return f"the header `{name}` is set by the sink itself" if name.lower() in _OURS else None


def _wrong_value(name: str, value: str) -> str | None:
    """Return why a header cannot have this value; the value may be a secret."""
    return None if _fits(value) and not re.search(r"[\r\n\0]", value) else f"the header `{name}` cannot be sent"


def _fits(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _sum_results(results: list[Row], endpoint: Endpoint, ref: BatchRef) -> WriteResult:
    """Sum the results of a batch. The first failure is raised."""
    for result in results:
        if result["failure"] is not None:
            failure: dict[str, Any] = json.loads(result["failure"])
            text = f"{endpoint.name} {failure['message']} ({failure['rows']:,} rows of `{ref.output}`)"
            raise ServiceError(failure["code"], text, hint=failure["hint"], retriable=failure["retriable"])
    return WriteResult(sum(result["sent"] for result in results), sum(result["refused"] for result in results))
