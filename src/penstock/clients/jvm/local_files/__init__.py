"""Java for Hadoop's local file system, which Spark writes checkpoints, topics and state with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.clients.jvm.compile_java import load_classes
from penstock.spark_internals.hadoop_files import replace_local_files

if TYPE_CHECKING:
    from pyspark import SparkContext


def set_permissions_in_process(context: SparkContext) -> None:
    """Make Hadoop set the permissions of local files by itself. Otherwise it starts a process for every new file."""
    load_classes(context, __name__)
    replace_local_files(context, "penstock.LocalFiles")
