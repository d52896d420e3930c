"""The fields that sources and sinks of files share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator

from penstock.clients.files import uri
from penstock.clients.files.uri import FileLocation
from penstock.clients.jvm.maven import Package
from penstock.clients.jvm.packages import AVRO
from penstock.config import FrozenModel


def _format(value: object) -> object:
    return "json" if value in ("ndjson", "jsonl") else value


FileFormat = Annotated[
    Literal["parquet", "json", "csv", "avro"],
    BeforeValidator(_format, json_schema_input_type=Literal["parquet", "json", "ndjson", "jsonl", "csv", "avro"]),
]


class FileFields(FrozenModel):
    path: FileLocation
    """A directory, or for a source also a file: a path, or a URI that begins with `s3://`, `s3a://`, `gs://`, `hdfs://`
    or `file://`. A relative path is resolved against the pipeline's directory."""
    format: FileFormat
    """`parquet`, `json` (one object per line; also `ndjson`, `jsonl`), `csv` (with a header line) or `avro`."""

    def with_root(self, root: Path) -> Self:
        return self.model_copy(update={"path": uri.resolve_location(self.path, root)})

    @classmethod
    def packages_for(cls, config: Mapping[str, Any]) -> tuple[Package, ...]:
        return (*uri.packages(str(config["path"])), *(AVRO if config["format"] == "avro" else ()))

    @classmethod
    def is_machine_local(cls, config: Mapping[str, Any]) -> bool:
        return uri.local_path(str(config["path"])) is not None
