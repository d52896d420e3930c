"""Registers user functions with Spark sessions: their sources are read once and sent to the executors."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StringType, StructType

from penstock.errors import PlanRefused, ServiceError
from penstock.manifest.calls import CalledFunction
from penstock.project.functions.modules import FOLDER, function_files
from penstock.runtime.query.functions.calls import FunctionRecipe, apply_function
from penstock.spark_internals.frames import python_calls
from penstock.sql.lint.user_calls import accepts_type
from penstock.sql.types.columns import data_type


class FunctionRegistry:
    """The user functions of a project, for all sessions of a run."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self._root = root
        self._spark = spark
        self._sent: tuple[str, Broadcast[dict[str, str]]] | None = None

    def register(self, called: Sequence[CalledFunction], session: SparkSession) -> None:
        for function in called:
            digest, sources = self._send_sources()
            result = DataType.fromDDL(function.returns)
            recipe = FunctionRecipe(
                name=function.name,
                file=function.file,
                digest=digest,
                parameters=tuple(
                    to_arrow_type(DataType.fromDDL(kind), timezone="UTC") for _, kind in function.parameters
                ),
                returns=function.returns,
                result=to_arrow_type(result, timezone="UTC"),
            )
            session.udf.register(function.function, _arrow_function(recipe, result, sources))

    def check(self, rows: DataFrame, called: Sequence[CalledFunction]) -> None:
        """Refuse a query whose arguments do not fit its functions. `validate` may not know the types of columns."""
        functions = {function.function: function for function in called}
        for name, arguments in python_calls(rows):
            if (function := functions.get(name)) is not None:
                for (parameter, wanted), given in zip(function.parameters, arguments, strict=True):
                    _check_argument(function, parameter, wanted, given.simpleString())

    def _send_sources(self) -> tuple[str, Broadcast[dict[str, str]]]:
        if self._sent is None:
            try:
                read = ((path, path.read_text(encoding="utf-8-sig")) for path in function_files(self._root))
                sources = {path.relative_to(self._root).as_posix(): text for path, text in read}
            except (OSError, UnicodeDecodeError) as error:
                raise ServiceError("file-unreadable", f"`{FOLDER}/` cannot be read: {error}") from error
            digest = hashlib.sha256(repr(sorted(sources.items())).encode()).hexdigest()[:16]
            self._sent = digest, self._spark.sparkContext.broadcast(sources)
        return self._sent


def _check_argument(function: CalledFunction, parameter: str, wanted: str, given: str) -> None:
    if given != "void" and not accepts_type(wanted, data_type(given)):
        text = f"`{parameter}` of {function.name} is {wanted}, and is given {given.upper()}"
        hint = f"write CAST(… AS {wanted}), or change the hint in {function.file}"
        raise PlanRefused("sql-argument", text, hint=hint)


def _arrow_function(recipe: FunctionRecipe, result: DataType, sources: Broadcast[dict[str, str]]) -> Any:
    def call_batch(*columns: pa.Array) -> pa.Array:
        return apply_function(recipe, lambda: sources.value, columns)

    answer = StructType().add("value", result).add("error", StringType())
    return arrow_udf(call_batch, answer)  # type: ignore[call-overload]  # its kind follows from the hints
