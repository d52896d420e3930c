"""What all tests share: one Spark session a worker, started only if a test asks for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected outputs of golden cases anew")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need Spark run in one worker, so that there is one JVM; the others are spread."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("process"):
            item.add_marker(pytest.mark.xdist_group("process"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from penstock.manifest.model import SparkSpec
    from penstock.runtime.session import spark_session

    logs: Path = tmp_path_factory.mktemp("spark") / "logs"
    with spark_session(SparkSpec(master="local[2]"), logs) as session:
        yield session
