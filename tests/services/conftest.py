from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.services import kafka, postgres
from tests.services import registry as registries
from tests.spark.running import Running


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    with kafka.running(tmp_path_factory.mktemp("kafka")) as found:
        yield found


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registries.running(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres.Database]:
    with postgres.running(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.fixture
def running(tmp_path: Path, spark: SparkSession) -> Running:
    return Running(tmp_path, spark)
