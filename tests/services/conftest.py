from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.services import clickhouse, kafka, postgres
from tests.services import registry as registries
from tests.spark.running import Running

Share = Callable[[str, Callable[[Path], Any]], Any]


@pytest.fixture(scope="session")
def broker(share: Share) -> kafka.Broker:
    return kafka.broker_of(*share("kafka", kafka.start))


@pytest.fixture(scope="session")
def registry(share: Share) -> str:
    return str(share("registry", registries.start))


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres.Database]:
    """A server of the worker's own: a test that kills one of its processes makes it start again."""
    with postgres.running(tmp_path_factory.mktemp("postgres")) as found:
        yield found


@pytest.fixture(scope="session")
def clickhouse_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine of the worker's own: it answers one client at a time."""
    with clickhouse.running(tmp_path_factory.mktemp("clickhouse")) as found:
        yield found


@pytest.fixture
def running(tmp_path: Path, spark: SparkSession) -> Running:
    return Running(tmp_path, spark)
