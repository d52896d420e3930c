"""Batches as directories of any file system that Hadoop supports: a local one, HDFS, an object store.

Object stores cannot rename in one step. So a batch is written to its final place, under a name of its own: a retry
overwrites what the first attempt has left. The note is written last; without it, readers can tell that a batch is
incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from penstock.batch import BatchRef
from penstock.clients.files.batch_directory import NOTE, observe_count, refuse_other_input
from penstock.clients.files.formats import Format, escape_glob
from penstock.spark_internals.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def publish(root: str, ref: BatchRef, batch: DataFrame, file_format: Format, settings: Mapping[str, str]) -> int:
    """Write the batch as a directory below `root`, unless it exists. `settings` are those of the file system.

    Returns the number of rows written. A batch without rows leaves nothing behind.
    """
    final = f"{root.rstrip('/')}/{ref.directory}"
    files = HadoopFiles(batch.sparkSession, settings)
    if before := files.text(f"{final}/{NOTE}"):  # HDFS has an empty one if writing it was interrupted
        refuse_other_input(before, ref, final)
        batch.write.format("noop").mode("append").save()
        return 0
    rows, count = observe_count(batch)
    rows.write.format(file_format.name).options(**file_format.write_options, **settings).mode("overwrite").save(final)
    written = count()
    if written:
        files.write(f"{final}/{NOTE}", json.dumps(asdict(ref)))
    else:
        files.delete(final)
    return written


def files_under(spark: SparkSession, root: str, file_format: Format) -> list[str]:
    """Return the data files below a directory, by relative path, without those that Spark ignores.

    If `root` is a file, its relative path is empty. If it does not exist, the list is empty.
    """
    files = HadoopFiles(spark, {})
    if not files.exists(root):
        return []
    if files.is_file(root):
        return [""]
    options = {"recursiveFileLookup": "true", "pathGlobFilter": file_format.glob}
    found = spark.read.format("text").options(**options).load(escape_glob(root)).inputFiles()
    base = urlsplit(root).path.rstrip("/") + "/"
    return sorted(unquote(urlsplit(address).path).removeprefix(base) for address in found)


def is_file(spark: SparkSession, place: str) -> bool:
    return HadoopFiles(spark, {}).is_file(place)
