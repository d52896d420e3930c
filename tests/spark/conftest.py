from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.running import Running


@pytest.fixture
def running(tmp_path: Path, spark: SparkSession) -> Running:
    return Running(tmp_path, spark)
