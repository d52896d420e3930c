"""Classes of ours in the JVM: compiled by the Janino that comes with Spark, and put on its class path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark_internals.jvm import java_class

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def compile_java(context: SparkContext, sources: Mapping[str, str]) -> dict[str, bytes]:
    """The class files of Java texts, which may use each other, by path. Texts are given by the names of their files."""
    resource = "org.codehaus.commons.compiler.util.resource"
    gateway: Any = context._gateway
    units = gateway.new_array(java_class(f"{resource}.Resource", context), len(sources))
    for place, (name, text) in enumerate(sources.items()):
        units[place] = java_class(f"{resource}.StringResource", context)(name, text)
    found = java_class("java.util.TreeMap", context)()
    compiler = java_class("org.codehaus.janino.Compiler", context)()
    loader = java_class("org.codehaus.janino.ClassLoaderIClassLoader", context)(_class_loader(context))
    compiler.setIClassLoader(loader)
    compiler.setClassFileCreator(java_class(f"{resource}.MapResourceCreator", context)(found))
    compiler.compile(units)
    return {path: bytes(found[path]) for path in found}


def has_resource(context: SparkContext, path: str) -> bool:
    """Whether the class path of the driver has a file."""
    return _class_loader(context).getResource(path) is not None


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
