"""Java that comes with us: compiled once by the Janino that comes with Spark, and made known to sessions.

Janino knows Java without generics and lambdas. All sources of a package are compiled together.
"""

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
"""By context, the packages that its JVM has. Asking the JVM takes a dozen calls."""


def register_functions(session: SparkSession, package: str, name: str, function: str) -> None:
    """Make the functions of a class known to a session, on all machines of its cluster, unless `function` is.

    The class is `penstock.<name>`, its source is in a package of ours, and it registers its functions by itself.
    """
    jvm: Any = session._jvm
    with _LOCK:
        own = session._jsparkSession
        identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(function)
        if not own.sessionState().catalog().isTemporaryFunction(identifier):
            _load(session.sparkContext, package)
            getattr(jvm.penstock, name).register(own)


def load_classes(context: SparkContext, package: str) -> None:
    """Load all Java classes of a package of ours on the driver and on all machines of its cluster."""
    with _LOCK:
        _load(context, package)


def _load(context: SparkContext, package: str) -> None:
    loaded = _LOADED.setdefault(context, set())
    if package in loaded:
        return
    jvm: Any = context._jvm
    library = _library(context, package)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"penstock/{package}") is None:
        loader.addURL(jvm.java.io.File(str(library)).toURI().toURL())
        context._jsc.addJar(str(library))
    loaded.add(package)


def _library(context: SparkContext, package: str) -> Path:
    """The archive of a package's classes, named by the content of their sources. One source may use another."""
    sources = {
        source.name: source.read_text(encoding="utf-8")
        for source in sorted(files(package).iterdir(), key=lambda source: source.name)
        if source.name.endswith(".java")
    }
    content = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sources.items()).encode()).hexdigest()
    library = cache_home() / "compiled" / f"{package.rpartition('.')[2]}-{content[:16]}.jar"
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        staged = library.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(staged, "w") as jar:
            jar.writestr(zipfile.ZipInfo(f"penstock/{package}"), b"")
            for path, code in _compile(context, sources).items():
                jar.writestr(zipfile.ZipInfo(path), code)
        staged.replace(library)
    return library


def _compile(context: SparkContext, sources: dict[str, str]) -> dict[str, bytes]:
    """The bytes of each class file, by its path."""
    gateway: Any = context._gateway
    jvm: Any = context._jvm
    resource = jvm.org.codehaus.commons.compiler.util.resource
    units = gateway.new_array(resource.Resource, len(sources))
    for place, (name, text) in enumerate(sources.items()):
        units[place] = resource.StringResource(name, text)
    found = jvm.java.util.TreeMap()
    compiler = jvm.org.codehaus.janino.Compiler()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setClassFileCreator(resource.MapResourceCreator(found))
    compiler.compile(units)
    return {path: bytes(found[path]) for path in found}
