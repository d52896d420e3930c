"""Files in an object store, with the settings of Kafka Connect's S3 sink, without Kafka Connect."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from penstock.batch import BatchRef
from penstock.clients.files.formats import FORMATS, Format
from penstock.clients.files.hadoop_batches import publish
from penstock.config import Secret, Whole
from penstock.connectors.contract import NO_SERVICE, KeepRows, Sink, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FORMATS: Mapping[str, str] = {"ParquetFormat": "parquet", "JsonFormat": "json"}


class S3Sink(Sink):
    """Writes each batch as one directory of files, in S3 or at any path that Hadoop supports.

    It is used if `runtime.connect` is not configured. For `s3a://…`, Spark needs the package `hadoop-aws`: name it in
    `runtime.spark.config`, under `spark.jars.packages`.
    """

    type: Literal["s3-sink"] = "s3-sink"
    waives: ClassVar[Mapping[str, str]] = dict.fromkeys(NO_SERVICE, "tested on local paths, without an object store")
    delivery = "exactly once: a retried batch overwrites the files of the first attempt"
    inert: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("flush_size", "storage_class", "key_converter", "value_converter", "tasks_max"), "it belongs to Kafka Connect"
    )

    path: str | None = None
    """Where to write files: a directory, `hdfs://…`, `s3a://…`. Relative paths start at the project's directory."""
    bucket: str | None = Field(None, alias="s3.bucket.name")
    """The bucket, instead of a path."""
    topics_dir: str = Field("topics", alias="topics.dir")
    """The directory in the bucket."""
    region: str | None = Field(None, alias="s3.region")
    """The region of the bucket."""
    store_url: str | None = Field(None, alias="store.url")
    """The endpoint of the store, if it is not Amazon's."""
    access_key: str | None = Field(None, alias="aws.access.key.id")
    """The access key of the bucket. Default: the credentials of the machine."""
    secret_key: Secret | None = Field(None, alias="aws.secret.access.key")
    """The secret of the access key. It is never shown."""
    format_class: str = Field("io.confluent.connect.s3.format.json.JsonFormat", alias="format.class")
    """The file format: a class whose name ends with `ParquetFormat` or `JsonFormat`."""
    flush_size: Whole | None = Field(None, alias="flush.size")
    """Rows per file. Accepted, but has no effect: a batch is a directory."""
    storage_class: str | None = Field(None, alias="storage.class")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    key_converter: str | None = Field(None, alias="key.converter")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    value_converter: str | None = Field(None, alias="value.converter")
    """Accepted, but has no effect: it belongs to Kafka Connect."""
    tasks_max: Whole | None = None
    """Accepted, but has no effect: it belongs to Kafka Connect."""

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if (self.path is None) == (self.bucket is None):
            raise ValueError("give `path`, or `s3.bucket.name`")
        if self._format is None:
            raise ValueError(f"`format.class` ends with one of: {', '.join(_FORMATS)}")
        return self

    @property
    def _format(self) -> Format | None:
        name = self.format_class.rpartition(".")[2]
        return FORMATS[_FORMATS[name]] if name in _FORMATS else None

    def with_root(self, root: Path) -> Self:
        if self.path is None or ":" in self.path:
            return self
        return self.model_copy(update={"path": f"file://{(root / self.path).absolute()}"})

    def write(self, batch: DataFrame, ref: BatchRef, keep: KeepRows | None = None) -> WriteResult:
        assert self._format is not None
        root = self.path or f"s3a://{self.bucket}/{self.topics_dir}/{self.from_.rpartition('.')[2]}"
        return WriteResult(publish(root, ref, batch, self._format, self._settings()))

    def _settings(self) -> dict[str, str]:
        said = {
            "fs.s3a.endpoint": self.store_url,
            "fs.s3a.endpoint.region": self.region,
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key.get_secret_value() if self.secret_key else None,
        }
        return {name: value for name, value in said.items() if value is not None}
