"""Registers ML models as functions of a Spark session: read once, checked against the SQL, sent to the executors."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType

from penstock.clients.extras import require
from penstock.errors import ServiceError
from penstock.manifest.calls import AskedModel
from penstock.runtime.query.ml.scoring import Recipe, open_session, score
from penstock.runtime.query.ml.signature import Signature, answer_of, check_arguments, signature_of
from penstock.spark_internals.frames import python_calls

_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class _LoadedModel:
    """A loaded model. Its bytes are broadcast to the executors, which need no access to our disk."""

    content: str
    signature: Signature
    bytes: Broadcast[bytes]


class MlFunctions:
    """The functions of models, for all sessions of a run."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self._root = root
        self._spark = spark
        self._models: dict[str, _LoadedModel] = {}

    def register(self, asked: Sequence[AskedModel], session: SparkSession) -> None:
        for model in asked:
            opened = self._open(model)
            declared = DataType.fromDDL(model.answer) if model.answer else None
            assert declared is None or isinstance(declared, StructType)
            answer = answer_of(model.model, opened.signature.outputs, declared)
            arrow_type = to_arrow_type(answer.type)
            recipe = Recipe(model.model, opened.content, opened.signature.inputs, answer, arrow_type)
            session.udf.register(model.function, _function(recipe, opened.bytes))

    def check(self, rows: DataFrame, asked: Sequence[AskedModel]) -> None:
        """Refuse a query whose arguments do not fit its models."""
        models = {model.function: model for model in asked}
        for function, arguments in python_calls(rows):
            if (model := models.get(function)) is not None:
                check_arguments(model.model, self._open(model).signature.inputs, arguments)

    def _open(self, model: AskedModel) -> _LoadedModel:
        if model.path not in self._models:
            require("onnxruntime", extra="ml")
            try:
                text = (self._root / model.path).read_bytes()
            except OSError as error:
                reason = f"the file `{model.path}` of `{model.model}` cannot be read: {error.strerror}"
                raise ServiceError("ml-model-missing", reason) from error
            signature = _signature(model, text)
            sent = self._spark.sparkContext.broadcast(text)
            self._models[model.path] = _LoadedModel(hashlib.sha256(text).hexdigest(), signature, sent)
        return self._models[model.path]


def _signature(model: AskedModel, content: bytes) -> Signature:
    try:
        return signature_of(open_session(content))
    except Exception as error:
        reason = " ".join(str(error).split())
        text = f"`{model.path}` of `{model.model}` cannot be opened: {reason[:_LONGEST]}"
        hint = "it must be one ONNX file, its weights included, of a version that this onnxruntime knows"
        raise ServiceError("ml-model-unreadable", text, hint=hint) from error


def _function(recipe: Recipe, model: Broadcast[bytes]) -> Any:
    def score_batch(*columns: pa.Array) -> pa.Array:
        return score(recipe, lambda: model.value, columns)

    return arrow_udf(score_batch, recipe.answer.type)  # type: ignore[call-overload]  # its kind follows from the hints
