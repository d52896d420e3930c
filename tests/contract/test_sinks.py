"""Every sink that promises something about replays, put through the public contract."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connectors.contract import Sink
from penstock.connectors.file import FileSink
from penstock.connectors.memory import MemorySink
from penstock.connectors.registry import BUILT_INS
from penstock.connectors.s3 import S3Sink
from penstock.connectors.topic import TopicSink
from penstock.testing import memory
from penstock.testing.contract import SinkContract

SINKS: dict[str, Callable[[Path], Sink]] = {
    "topic": lambda folder: TopicSink(from_="rows", topic="rows", directory=folder),
    "file": lambda folder: FileSink(from_="rows", path=str(folder), format="json"),
    "s3-sink": lambda folder: S3Sink(from_="rows", path=folder.as_uri()),
    "memory": lambda folder: MemorySink(from_="rows"),
}
EXCUSED = {
    "clickhouse": "is held to it in tests/services/test_clickhouse.py, where its engine runs",
    "blackhole": "discards all rows",
    "print": "prints a replayed batch again, and says so",
    "kafka": "writes a replayed batch again, and says so",
    "postgres": "needs a database: tests/services/test_postgres_sink.py",
    "postgres_aggregate": "needs a database: tests/services/test_postgres_aggregate.py",
    "jdbc-sink": "writes as postgres does",
    "webhook": "sends a replayed batch again under the same keys, and says so: see tests/spark/test_webhook.py",
}
CHECKS = [name for name in vars(SinkContract) if name.startswith(("writes_", "a_", "an_"))]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("type_name", SINKS)
def test_contract(type_name: str, check: str, tmp_path: Path, spark: SparkSession) -> None:
    sink = SINKS[type_name](tmp_path / "out")
    suffix = "parquet" if type_name == "topic" else "json"

    memory.forget()

    def written_ids() -> list[int]:
        if type_name == "memory":
            return [row["id"] for row in memory.kept_rows("contract")]
        files = [str(f) for f in (tmp_path / "out").glob(f"*-*/part-*.{suffix}")]
        return [row["id"] for row in spark.read.format(suffix).load(files).collect()] if files else []

    getattr(SinkContract(sink, spark, written_ids), check)()


def test_every_sink_is_either_under_contract_or_excused_with_a_reason() -> None:
    assert {b.type for b in BUILT_INS if b.role == "sink"} == SINKS.keys() | EXCUSED.keys()
