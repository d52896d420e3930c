"""The functions over wide numbers: Java, compiled once by what comes with Spark, and made known to sessions."""

from __future__ import annotations

import hashlib
import os
import zipfile
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from penstock.clients.jars import cache_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS: Final = "penstock.WideNumbers"
_LOCK: Final = Lock()


def know_wide_numbers(session: SparkSession) -> None:
    """Make the functions known to a session, on all machines of its cluster, unless they are."""
    jvm: Any = session._jvm
    with _LOCK:
        own = session._jsparkSession
        if (
            own.sessionState()
            .catalog()
            .isTemporaryFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier("penstock_to_u256"))
        ):
            return
        _load(session)
        jvm.penstock.WideNumbers.register(own)


def _load(session: SparkSession) -> None:
    """Have the class on the driver, and tell executors where it is."""
    jvm: Any = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(_CLASS.replace(".", "/") + ".class") is None:
        library = _library(jvm)
        loader.addURL(jvm.java.io.File(str(library)).toURI().toURL())
        session.sparkContext._jsc.addJar(str(library))


def _library(jvm: Any) -> Path:
    """The compiled functions, by what they were compiled from."""
    source = files("penstock.clients.wide").joinpath("WideNumbers.java").read_text(encoding="utf-8")
    library = cache_home() / "compiled" / f"wide-{hashlib.sha256(source.encode()).hexdigest()[:16]}.jar"
    if not library.is_file():
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(source)
        found = compiler.getBytecodes()
        library.parent.mkdir(parents=True, exist_ok=True)
        staged = library.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(staged, "w") as jar:
            for name in sorted(found.keySet()):
                jar.writestr(zipfile.ZipInfo(name.replace(".", "/") + ".class"), bytes(found[name]))
        staged.replace(library)
    return library
