"""The errors that a call into Spark can raise, and their causes in Java."""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

SparkError: TypeAlias = PySparkException | Py4JError
SPARK_ERRORS: Final = (PySparkException, Py4JError)
"""The errors that a call into Spark can raise. Errors that PySpark has no class for arrive as those of py4j."""
UNNAMED_ERRORS: Final = Py4JJavaError
"""Java errors that PySpark has no class for."""


def is_connection_error(error: BaseException) -> bool:
    """Whether a call did not reach the JVM, or its answer did not reach us."""
    return isinstance(error, OSError | EOFError | Py4JError) and not isinstance(error, Py4JJavaError)


def java_causes(error: SparkError) -> Iterator[str]:
    """Yield the messages of a Java error and of its causes, outermost first. The JVM must still run."""
    origin: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while origin is not None:
        yield str(origin.getMessage() or origin.toString())
        origin = origin.getCause()


def stream_causes(error: SparkError) -> Iterator[str]:
    """Yield the causes of an error that ended a stream, of which PySpark keeps texts only."""
    cause: Any = getattr(error, "_cause", None)
    while cause is not None:
        yield str(cause._desc)
        cause = cause._cause
