"""Classes of ours in the JVM: compiled by the Janino that comes with Spark, and put on its class path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark_internals.jvm import java_class

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def compile_java(context: SparkContext, source: str) -> dict[str, bytes]:
    """The classes of a Java text, by the paths of their files."""
    compiler = java_class("org.codehaus.janino.SimpleCompiler", context)()
    compiler.cook(source)
    classes = compiler.getBytecodes()
    return {f"{name.replace('.', '/')}.class": bytes(classes[name]) for name in sorted(classes.keySet())}


def has_class(context: SparkContext, name: str) -> bool:
    """Whether the driver has a class."""
    return _class_loader(context).getResource(f"{name.replace('.', '/')}.class") is not None


def add_library(context: SparkContext, library: Path) -> None:
    """Put a jar on the class path of the driver and of all executors."""
    _class_loader(context).addURL(java_class("java.io.File", context)(str(library)).toURI().toURL())
    java: Any = context._jsc
    java.addJar(str(library))


def has_function(session: SparkSession, function: str) -> bool:
    """Whether a session knows a temporary function."""
    identifier = java_class("org.apache.spark.sql.catalyst.FunctionIdentifier", session.sparkContext)(function)
    java: Any = session._jsparkSession
    return bool(java.sessionState().catalog().isTemporaryFunction(identifier))


def register_functions(session: SparkSession, name: str) -> None:
    """Have a class register its functions with a session."""
    java_class(name, session.sparkContext).register(session._jsparkSession)


def _class_loader(context: SparkContext) -> Any:
    return java_class("java.lang.Thread", context).currentThread().getContextClassLoader()
