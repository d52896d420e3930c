"""The Python processes of Spark."""

from collections.abc import Iterator

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession


def test_workers_run_the_compiled_code_of_the_installed_pyspark(spark: SparkSession) -> None:
    def find_pyspark(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark.worker

        yield pa.RecordBatch.from_pydict({"file": [pyspark.worker.__file__]})

    rows = spark.range(1).mapInArrow(find_pyspark, "file STRING").collect()
    assert rows[0]["file"] == pyspark.__file__.replace("__init__.py", "worker.py")
