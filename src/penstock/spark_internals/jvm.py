"""The JVM of this process: its start, its process, its Spark context, and access to its classes."""

from __future__ import annotations

import subprocess
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

JvmProcess: TypeAlias = "subprocess.Popen[bytes]"


class Jvm:
    """A JVM that was started for Spark, without a context yet."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    @property
    def process(self) -> JvmProcess:
        process: JvmProcess = self._gateway.proc
        return process

    def start_context(self, conf: SparkConf) -> SparkContext:
        from pyspark import SparkContext

        return SparkContext(conf=conf, gateway=self._gateway)


def launch_jvm(conf: SparkConf, process_settings: MutableMapping[str, Any]) -> Jvm:
    """Start a JVM. `process_settings` are arguments of `Popen`, to which PySpark adds its own."""
    from pyspark.java_gateway import launch_gateway

    return Jvm(launch_gateway(conf, process_settings))  # type: ignore[no-untyped-call]


def jvm_process() -> JvmProcess | None:
    """Return the process of the JVM; None if there is none."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return None if gateway is None else gateway.proc


def forget_jvm() -> None:
    """Make PySpark forget a JVM that has ended, so that another one can be started."""
    from pyspark import SparkContext

    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None


def silence_accumulators(context: SparkContext) -> None:
    """Keep the server of accumulators from writing to the terminal when its client has gone."""
    server: Any = context._accumulatorServer
    server.handle_error = lambda *_: None


def running_context() -> SparkContext | None:
    """Return the context of this process; None if none runs."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def active_context() -> SparkContext:
    """Return the context of this process, which must be running."""
    context = running_context()
    assert context is not None
    return context


_USED_BY_COLUMNS: Final = (
    *("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils"),
    *("SimplePythonFunction", "org.apache.spark.sql.classic.SparkSession", "org.apache.spark.sql.types.StructType"),
)
"""The Java classes that PySpark looks up for every function, column, literal and type, by the names that it uses."""


def cache_classes(context: SparkContext) -> None:
    """Look up often used classes, and their methods, once. py4j would ask the JVM at every use, which searches all of
    its jars for a short name."""
    from py4j.java_gateway import JavaClass, JavaMember

    class CachedClass(JavaClass):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if isinstance(found, JavaMember):
                self.__dict__[name] = found
            return found

    jvm: Any = context._jvm
    for name in _USED_BY_COLUMNS:
        found = getattr(jvm, name)
        setattr(jvm, name, CachedClass(found._fqn, found._gateway_client))


def is_local(context: SparkContext) -> bool:
    """Whether Spark runs inside one process, so that no rows are lost with another machine."""
    java: Any = context._jsc
    return bool(java.sc().isLocal())


def java_class(name: str, context: SparkContext | None = None) -> Any:
    """Return a class of the JVM, by its full name: py4j would otherwise ask the JVM for each part of it."""
    jvm: Any = (context or active_context())._jvm
    return getattr(jvm, name)


def scala_object(name: str) -> Any:
    """Return the single instance of a Scala `object`."""
    return getattr(java_class(f"{name}$"), "MODULE$")


def scala_items(sequence: Any) -> list[Any]:
    return [sequence.apply(place) for place in range(sequence.size())]


def spark_home() -> Path:
    """Return the directory of the Spark that PySpark starts."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())
