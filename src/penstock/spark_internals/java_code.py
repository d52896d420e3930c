"""Our own classes in the JVM: compiled by the Janino that comes with Spark, and added to its class path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark_internals.jvm import java_class

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def compile_java(context: SparkContext, sources: Mapping[str, str]) -> dict[str, bytes]:
    """Compile Java sources, given by file name, which may use each other. Returns the class files by path."""
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
    """Whether a file is on the class path of the driver."""
    return _class_loader(context).getResource(path) is not None


def add_library(context: SparkContext, library: Path) -> None:
    """Add a jar to the class path of the driver and of all executors."""
    _class_loader(context).addURL(java_class("java.io.File", context)(str(library)).toURI().toURL())
    java: Any = context._jsc
    java.addJar(str(library))


def has_function(session: SparkSession, function: str) -> bool:
    """Whether a session has a temporary function."""
    identifier = java_class("org.apache.spark.sql.catalyst.FunctionIdentifier", session.sparkContext)(function)
    java: Any = session._jsparkSession
    return bool(java.sessionState().catalog().isTemporaryFunction(identifier))


def register_functions(session: SparkSession, name: str) -> None:
    """Call a class to register its functions with a session."""
    java_class(name, session.sparkContext).register(session._jsparkSession)


def _class_loader(context: SparkContext) -> Any:
    return java_class("java.lang.Thread", context).currentThread().getContextClassLoader()
