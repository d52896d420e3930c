"""Files in a directory, as a source and as a sink."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from penstock.clients.batches import BatchRef, PartRead, publish
from penstock.clients.formats import (
    FORMATS,
    JSON_OPTIONS,
    STREAM_OPTIONS,
    files_under,
    from_address,
    known_columns,
    literal,
)
from penstock.config import Duration, Frozen
from penstock.connectors.contract import NO_SERVICE, Sink, Source
from penstock.errors import ServiceError
from penstock.sql.types import Columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _format(value: object) -> object:
    return "json" if value in ("ndjson", "jsonl") else value


FileFormat = Annotated[
    Literal["parquet", "json", "csv"],
    BeforeValidator(_format, json_schema_input_type=Literal["parquet", "json", "ndjson", "jsonl", "csv"]),
]


class Bounded(Frozen):
    """Read what is there when the run starts, then end."""

    type: Literal["bounded"]


class Continuous(Frozen):
    """Go on reading files as they arrive."""

    type: Literal["continuous"]
    poll_interval: Duration = 5000
    """How often to look for new files."""


class _Files(Frozen):
    path: Path
    """A directory, or for a source also a file; a relative path starts at the pipeline's own directory."""
    format: FileFormat
    """`parquet`, `json` (one object a line; also `ndjson`, `jsonl`) or `csv` (with a header line)."""

    def rooted_at(self, root: Path) -> Self:
        return self.model_copy(update={"path": root / self.path})


class FileSource(_Files, Source):
    """Reads the files below a directory. Their columns are found when the run starts."""

    type: Literal["file"] = "file"
    own_labels: ClassVar = frozenset({"path"})
    on_this_machine = True
    mode: Bounded | Continuous = Field(Continuous(type="continuous"), discriminator="type")
    """`{type: bounded}` or `{type: continuous, poll_interval: 5s}`."""

    @property
    def bounded(self) -> bool:
        return isinstance(self.mode, Bounded)

    @property
    def poll_ms(self) -> int:
        return self.mode.poll_interval if isinstance(self.mode, Continuous) else 200

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        reader = spark.readStream.name(name).format(self.format).schema(self.peek(spark).schema)
        return reader.options(**STREAM_OPTIONS, **self._options()).load(literal(self.path))

    def read_again(
        self, spark: SparkSession, name: str, parts: Mapping[str, PartRead], *, ordered: bool = False
    ) -> DataFrame | None:
        part = parts.get(name)
        if part is None or not part.files:
            return None
        reader = spark.read.format(self.format).schema(self.peek(spark).schema)
        base = self.path.parent if self.path.is_file() else self.path
        return reader.options(**self._options(), basePath=str(base)).load(list(map(from_address, part.files)))

    def rows_of(self, records: DataFrame) -> DataFrame | None:
        """Records are kept as JSON, whatever files they stood in."""
        from pyspark.sql import functions as f

        schema, options = self.peek(records.sparkSession).schema, {**JSON_OPTIONS, **FORMATS["json"].read_options}
        return records.select(f.from_json(f.col("value").cast("string"), schema, options).alias("row")).select("row.*")

    def peek(self, spark: SparkSession) -> DataFrame:
        self.check()
        return spark.read.format(self.format).options(inferSchema="true", **self._options()).load(literal(self.path))

    def known_columns(self) -> Columns | None:
        return known_columns(self.path, FORMATS[self.format])

    def check(self) -> None:
        self._first()

    def _options(self) -> dict[str, str]:
        """Directories named `key=value` become columns; any others are just looked into."""
        chosen = FORMATS[self.format]
        partitioned = any("=" in part for part in self._first().relative_to(self.path).parts[:-1])
        glob = self.path.name if self.path.is_file() else chosen.glob
        lookup = {"pathGlobFilter": glob, "recursiveFileLookup": "false" if partitioned else "true"}
        return {**lookup, **chosen.read_options}

    def _first(self) -> Path:
        first = next(files_under(self.path, FORMATS[self.format]), None)
        if first is None:
            raise ServiceError(
                "schema-unknown",
                f"no files matching format {self.format} found at path {self.path}",
                hint="its columns are read from the first file, so put one there",
            )
        return first


class FileSink(_Files, Sink):
    """Writes each batch as one directory of files, below the path."""

    type: Literal["file"] = "file"
    own_labels: ClassVar = frozenset({"path"})
    on_this_machine = True
    waives: ClassVar = NO_SERVICE
    delivery = "exactly once: a replayed batch is recognised by its directory and not written again"

    def write(self, batch: DataFrame, ref: BatchRef) -> int:
        return publish(self.path, ref, batch, FORMATS[self.format])
