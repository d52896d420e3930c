"""What a session changes of Spark and Hadoop so that queries start and commit with less work."""

import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors.utils import is_debugging_enabled
from pyspark.sql import SparkSession

from penstock.spark_internals.jvm import java_class


def local_files(spark: SparkSession) -> Any:
    """Hadoop's file system for local files, as a new session gets it."""
    java: Any = spark.newSession()._jsparkSession
    return java_class("org.apache.hadoop.fs.Path")("file:///tmp").getFileSystem(java.sessionState().newHadoopConf())


@pytest.mark.parametrize("mode", [0o640, 0o755, 0o1777])
def test_files_and_directories_have_the_permissions_that_are_asked_for(
    spark: SparkSession, tmp_path: Path, mode: int
) -> None:
    files, permission = local_files(spark), java_class("org.apache.hadoop.fs.permission.FsPermission")(str(f"{mode:o}"))
    assert files.getClass().getName() == "penstock.LocalFiles"
    path = java_class("org.apache.hadoop.fs.Path")(f"{tmp_path}/new")
    assert files.mkdirs(path)
    files.setPermission(path, permission)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


def test_a_file_that_is_written_is_like_one_of_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    spark.range(3).coalesce(1).write.json(str(rows))
    (part,) = rows.glob("part-*")
    assert stat.S_IMODE(part.stat().st_mode) == 0o644
    assert (rows / f".{part.name}.crc").is_file()
    assert spark.read.json(str(rows)).count() == 3


def test_a_column_costs_no_lookup_of_its_class(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    assert jvm.functions is jvm.functions
    assert jvm.functions.lit is jvm.functions.lit
    assert not is_debugging_enabled()
