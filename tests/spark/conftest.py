"""What the tests of this directory share: the session, and how its queries are computed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tests.spark.running import Running

_SMALL: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""For few rows, compiling the code of a query takes longer than interpreting it, and so does every partition of state.
Modules that are about values and partitions say `pytestmark = pytest.mark.as_deployed`."""


@pytest.fixture(autouse=True, scope="module")
def _small_queries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute the queries of a module in the way that is cheap for few rows. New sessions take it from the context."""
    needs_spark = any("spark" in item.fixturenames for item in request.session.items if item.path == request.path)
    if not needs_spark or request.node.get_closest_marker("as_deployed"):
        yield
        return
    spark: SparkSession = request.getfixturevalue("spark")
    before = _set_defaults(spark, _SMALL)
    yield
    _set_defaults(spark, before)


def _set_defaults(spark: SparkSession, wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    """Set what new sessions begin with, and return what it was."""
    conf = spark.sparkContext._jsc.sc().conf()
    before = {name: conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        if value is None:
            conf.remove(name)
        else:
            conf.set(name, value)
    return before


@pytest.fixture
def running(tmp_path: Path, spark: SparkSession) -> Running:
    return Running(tmp_path, spark)
