"""What all tests share: one Spark session, started only if a test asks for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected outputs of golden cases anew")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests that need Spark are marked, so that they can run in one process, with one JVM."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from penstock.clients.jvm.maven import fetch
    from penstock.clients.jvm.packages import KAFKA, POSTGRES
    from penstock.manifest.model import SparkSpec
    from penstock.runtime.spark.session import spark_session

    logs: Path = tmp_path_factory.mktemp("spark") / "logs"
    with spark_session(SparkSpec(master="local[2]"), logs, [*fetch(KAFKA), *fetch(POSTGRES)]) as session:
        yield session
