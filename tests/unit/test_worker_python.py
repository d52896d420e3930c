"""The script that starts Python workers takes PySpark from where it is installed."""

import json
import os
import subprocess
import sys

from penstock.runtime.spark.python_workers import SCRIPT

SHOW = "import json, os, sys; print(json.dumps([os.environ['PYTHONPATH'], sys.argv[1:], sys.executable]))"


def started(python_path: str) -> list[object]:
    environ = {**os.environ, "PYTHONPATH": python_path, "PENSTOCK_WORKER_PYTHON": sys.executable}
    done = subprocess.run(
        [SCRIPT, "-c", SHOW, "an argument", "*"], env=environ, capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


def test_the_zips_of_pyspark_are_left_out_and_everything_else_stays() -> None:
    zips = "/a b/pyspark/python/lib/pyspark.zip:/a b/pyspark/python/lib/py4j-0.10.9.9-src.zip"
    kept = "/a b/jars/spark-core.jar:/mine/pyspark.zip:/some where/*"
    assert started(f"{zips}:{kept}") == [kept, ["an argument", "*"], sys.executable]


def test_nothing_may_be_left() -> None:
    assert started("/x/python/lib/pyspark.zip")[0] == ""
