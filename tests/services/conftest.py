from collections.abc import Callable
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
def database(share: Share) -> postgres.Database:
    found: postgres.Database = share("postgres", postgres.start)
    return found


@pytest.fixture(scope="session")
def clickhouse_url(share: Share) -> str:
    return str(share("clickhouse", clickhouse.start))


@pytest.fixture
def running(tmp_path: Path, spark: SparkSession) -> Running:
    return Running(tmp_path, spark)
