"""Compiles our Java sources once, with the Janino that comes with Spark, and registers their functions with sessions.

Janino supports Java without generics and lambdas. All sources of a package are compiled together.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from penstock.clients.jvm.maven import cache_home
from penstock.spark_internals import java_code

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOCK: Final = Lock()
_LOADED: Final[WeakKeyDictionary[SparkContext, set[str]]] = WeakKeyDictionary()
"""The packages that the JVM of a context has loaded. Asking the JVM takes a dozen calls."""


def register_functions(session: SparkSession, package: str, name: str, function: str) -> None:
    """Register the functions of a class with a session and load it on its cluster, unless it knows `function`.

    The class is `penstock.<name>`, its source is in the Python package, and it registers its functions by itself.
    """
    with _LOCK:
        if not java_code.has_function(session, function):
            _load(session.sparkContext, package)
            java_code.register_functions(session, f"penstock.{name}")


def load_classes(context: SparkContext, package: str) -> None:
    """Load the Java classes of a Python package on the driver and on all machines of its cluster."""
    with _LOCK:
        _load(context, package)


def _load(context: SparkContext, package: str) -> None:
    loaded = _LOADED.setdefault(context, set())
    if package not in loaded:
        library = _library(context, package)
        if not java_code.has_resource(context, f"penstock/{package}"):
            java_code.add_library(context, library)
        loaded.add(package)


def _library(context: SparkContext, package: str) -> Path:
    """Return the jar of a package's classes, named by the content of their sources. Sources may use each other."""
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
            for path, code in java_code.compile_java(context, sources).items():
                jar.writestr(zipfile.ZipInfo(path), code)
        staged.replace(library)
    return library
