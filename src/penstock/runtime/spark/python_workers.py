"""The Python workers of Spark: which Python runs them, and our code for those on a cluster."""

import os
import sys
import zipfile
from pathlib import Path
from typing import Final

from pyspark import SparkConf

import penstock

SCRIPT: Final = Path(__file__).with_name("worker_python")
"""Starts a Python worker with PySpark from where it is installed, with its compiled code."""


def worker_python_variables(conf: SparkConf) -> dict[str, str]:
    """Return the variables that choose the Python of the workers: this very one, or on a cluster that of the project.

    On one machine a script starts it that takes PySpark from where it is installed, with its compiled code.
    """
    if (named := conf.get("spark.pyspark.python")) is not None:
        return {"PYSPARK_PYTHON": named}
    if not conf.get("spark.master", "").startswith("local") or not os.access(SCRIPT, os.X_OK):
        return {"PYSPARK_PYTHON": sys.executable}
    return {"PYSPARK_PYTHON": str(SCRIPT), "PENSTOCK_WORKER_PYTHON": sys.executable}


def pack_code(folder: Path) -> Path:
    """Pack the package into a file that Python can import. Its dependencies must be installed on the machines."""
    package = Path(penstock.__file__).parent
    archive = folder / "penstock.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(package.rglob("*.py")):
            file.write(module, module.relative_to(package.parent))
    return archive
