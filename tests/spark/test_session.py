"""How Spark and Python are connected."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from penstock.runtime import session

_DIRECTORY = "spark.python.unix.domain.socket.dir"


def test_rows_go_to_python_by_sockets_that_nobody_else_may_open(spark: SparkSession) -> None:
    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    assert len(spark.range(10).mapInArrow(through, "id BIGINT").collect()) == 10
    directory = Path(spark.sparkContext.getConf().get(_DIRECTORY, ""))
    assert any(path.is_socket() for path in directory.iterdir())
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_sockets_are_gone_with_the_session() -> None:
    with session._sockets("local[2]") as settings:
        directory = Path(settings[_DIRECTORY])
        assert directory.is_dir()
    assert not directory.exists()


def test_a_path_that_is_too_long_for_a_socket_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with session._sockets("local[2]") as settings:
        assert settings == {}


def test_machines_of_a_cluster_have_their_own_places() -> None:
    with session._sockets("spark://127.0.0.1:7077") as settings:
        assert settings == {}
