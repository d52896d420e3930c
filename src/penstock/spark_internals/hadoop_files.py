"""Files of any file system that Hadoop supports: a local one, HDFS, an object store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.spark_internals.jvm import java_class

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def replace_local_files(context: SparkContext, name: str) -> None:
    """Make Hadoop use a class of ours for `file:`. What it has opened is closed, so that nothing is used any longer."""
    java: Any = context._jsc
    conf = java.hadoopConfiguration()
    local = java_class("java.net.URI", context).create("file:///")
    conf.set("fs.file.impl", name)
    java_class("org.apache.hadoop.fs.FileSystem", context).get(local, conf).close()


class HadoopFiles:
    """Hadoop's file systems, with the settings of a session overridden by `settings`."""

    def __init__(self, session: SparkSession, settings: Mapping[str, str]) -> None:
        context = session.sparkContext
        java: Any = context._jsc
        self._path = java_class("org.apache.hadoop.fs.Path", context)
        self._io = java_class("org.apache.commons.io.IOUtils", context)
        self._conf = java_class("org.apache.hadoop.conf.Configuration", context)(java.hadoopConfiguration())
        for key, value in settings.items():
            self._conf.set(key, value)

    def text(self, path: str) -> str | None:
        """Return the content of a file; None if it does not exist."""
        files, place = self._at(path)
        if not files.exists(place):
            return None
        stream = files.open(place)
        try:
            return bytes(self._io.toByteArray(stream)).decode()
        finally:
            stream.close()

    def exists(self, path: str) -> bool:
        files, place = self._at(path)
        return bool(files.exists(place))

    def is_file(self, path: str) -> bool:
        files, place = self._at(path)
        return bool(files.exists(place) and files.getFileStatus(place).isFile())

    def write(self, path: str, text: str) -> None:
        files, place = self._at(path)
        stream = files.create(place, True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def delete(self, path: str) -> None:
        files, place = self._at(path)
        files.delete(place, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._path(path)
        return place.getFileSystem(self._conf), place
