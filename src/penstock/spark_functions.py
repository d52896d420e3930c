"""The functions of Spark SQL as `f`, loaded on first use: `validate` must not load pyspark."""

from typing import TYPE_CHECKING, Any

__all__ = ["f"]

if TYPE_CHECKING:
    from pyspark.sql import functions as f
else:

    class _SparkFunctions:
        def __getattr__(self, name: str) -> Any:
            from pyspark.sql import functions

            return getattr(functions, name)

    f = _SparkFunctions()
