"""Compile the Java of this package once by the Janino that comes with Spark, and register it with sessions."""

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
"""By context, what its JVM has: to ask it costs a dozen calls."""


def register_functions(session: SparkSession, package: str, name: str, function: str) -> None:
    """Register the functions of a class with a session and load it on its cluster, unless `function` is known to it.

    The class is `penstock.<name>`, its source lies in a package of ours, and it registers its functions by itself.
    """
    with _LOCK:
        if not java_code.has_function(session, function):
            java_code.register_functions(session, _load(session.sparkContext, package, name))


def load_class(context: SparkContext, package: str, name: str) -> str:
    """Load the class `penstock.<name>` on the driver and on all machines of its cluster; returns its whole name."""
    with _LOCK:
        return _load(context, package, name)


def _load(context: SparkContext, package: str, name: str) -> str:
    loaded, whole_name = _LOADED.setdefault(context, set()), f"penstock.{name}"
    if name not in loaded:
        if not java_code.has_class(context, whole_name):
            java_code.add_library(context, _library(context, package, name))
        loaded.add(name)
    return whole_name


def _library(context: SparkContext, package: str, name: str) -> Path:
    """The jar of a class, in the cache under the digest of its source."""
    source = files(package).joinpath(f"{name}.java").read_text(encoding="utf-8")
    library = cache_home() / "compiled" / f"{name}-{hashlib.sha256(source.encode()).hexdigest()[:16]}.jar"
    if not library.is_file():
        classes = java_code.compile_java(context, source)
        library.parent.mkdir(parents=True, exist_ok=True)
        staged = library.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(staged, "w") as jar:
            for path, content in classes.items():
                jar.writestr(zipfile.ZipInfo(path), content)
        staged.replace(library)
    return library
