"""Java that comes with us: compiled once by the Janino that comes with Spark, and made known to sessions."""

from __future__ import annotations

import hashlib
import os
import zipfile
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from penstock.clients.jvm.maven import cache_home

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOCK: Final = Lock()
_LOADED: Final[WeakKeyDictionary[SparkContext, set[str]]] = WeakKeyDictionary()
"""By context, what its JVM has: to ask it costs a dozen calls."""


def register_functions(session: SparkSession, package: str, name: str, function: str) -> None:
    """Make the functions of a class known to a session, on all machines of its cluster, unless `function` is.

    The class is `penstock.<name>`, its source lies in a package of ours, and it registers its functions by itself.
    """
    jvm: Any = session._jvm
    with _LOCK:
        own = session._jsparkSession
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(function)
        if not own.sessionState().catalog().isTemporaryFunction(identifier):
            _load(session.sparkContext, package, name)
            getattr(jvm.penstock, name).register(own)


def load_class(context: SparkContext, package: str, name: str) -> None:
    """Have the class `penstock.<name>` on the driver and on all machines of its cluster."""
    with _LOCK:
        _load(context, package, name)


def _load(context: SparkContext, package: str, name: str) -> None:
    loaded = _LOADED.setdefault(context, set())
    if name in loaded:
        return
    jvm: Any = context._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"penstock/{name}.class") is None:
        library = _library(jvm, package, name)
        loader.addURL(jvm.java.io.File(str(library)).toURI().toURL())
        context._jsc.addJar(str(library))
    loaded.add(name)


def _library(jvm: Any, package: str, name: str) -> Path:
    """The compiled functions, by what they were compiled from."""
    source = files(package).joinpath(f"{name}.java").read_text(encoding="utf-8")
    library = cache_home() / "compiled" / f"{name}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.jar"
    if not library.is_file():
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(source)
        found = compiler.getBytecodes()
        library.parent.mkdir(parents=True, exist_ok=True)
        staged = library.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(staged, "w") as jar:
            for compiled in sorted(found.keySet()):
                jar.writestr(zipfile.ZipInfo(compiled.replace(".", "/") + ".class"), bytes(found[compiled]))
        staged.replace(library)
    return library
