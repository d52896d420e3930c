"""Runs an ONNX model on a batch of rows, on the executors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.runtime.query.ml.signature import ELEMENTS, ModelAnswer, Pick, Tensor, is_stacked


@dataclass(frozen=True, slots=True)
class Recipe:
    """How rows become inputs, and outputs become the answer. `content` identifies the model's file."""

    model: str
    content: str
    inputs: tuple[Tensor, ...]
    answer: ModelAnswer
    answer_type: pa.StructType


_SESSIONS: Final[dict[str, Any]] = {}
"""The models that this process has opened, by content."""


def open_session(model: bytes) -> Any:
    """Open a session of onnxruntime with one thread: Spark has a process for every core already."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: warnings about a model do not help the person who runs it
    return InferenceSession(model, options, providers=["CPUExecutionProvider"])


def score(recipe: Recipe, model: Callable[[], bytes], columns: Sequence[pa.Array]) -> pa.StructArray:
    """Return the model's answer for each row. A row with a null argument has a null answer."""
    known = np.ones(len(columns[0]), dtype=bool)
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    count = int(known.sum())
    if count == 0:
        return pa.nulls(len(known), recipe.answer_type)
    if count == len(known):
        return _run_model(recipe, _session(recipe.content, model), columns, count)
    kept = [column.filter(pa.array(known)) for column in columns]
    answered = _run_model(recipe, _session(recipe.content, model), kept, count)
    return answered.take(pa.array(np.cumsum(known) - 1, mask=~known))


def _session(content: str, model: Callable[[], bytes]) -> Any:
    if content not in _SESSIONS:
        _SESSIONS[content] = open_session(model())
    return _SESSIONS[content]


def _run_model(recipe: Recipe, session: Any, columns: Sequence[pa.Array], count: int) -> pa.StructArray:
    asked = list(dict.fromkeys(pick.output for pick in recipe.answer.picks))
    given = dict(zip(asked, session.run(asked, _feeds(recipe.inputs, columns)), strict=True))
    arrays = [
        _column(recipe.model, pick, given[pick.output], count, field.type)
        for pick, field in zip(recipe.answer.picks, recipe.answer_type, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(recipe.answer_type))


def _feeds(inputs: Sequence[Tensor], columns: Sequence[pa.Array]) -> dict[str, np.ndarray]:
    if is_stacked(inputs):
        (tensor,) = inputs
        return {tensor.name: np.stack([_values(column, tensor) for column in columns], axis=1)}
    return {
        tensor.name: _values(column, tensor).reshape((-1, 1) if len(tensor.shape) == 2 else (-1,))
        for tensor, column in zip(inputs, columns, strict=True)
    }


def _values(column: pa.Array, tensor: Tensor) -> np.ndarray:
    """Convert a column without nulls to the type of the model's input. An integer that does not fit is an error."""
    dtype, kind, _ = ELEMENTS[tensor.type]
    if kind != "text":
        wanted = pa.float32() if dtype == "float16" else pa.from_numpy_dtype(dtype)
        column = column.cast(wanted, safe=kind != "fraction")
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values.astype(dtype, copy=False)


def _column(model: str, pick: Pick, output: Any, count: int, kind: pa.DataType) -> pa.Array:
    values = np.asarray(output)
    table = values.reshape(count, -1) if values.shape[:1] == (count,) and values.ndim <= 2 else None
    if table is None or pick.width not in (None, table.shape[1]):
        wanted = f"[{count}, {pick.width or 'm'}]"
        raise ValueError(f"`{model}` gave `{pick.output}` as {list(values.shape)}, where {wanted} was expected")
    if pick.place is not None:
        return _cast(table[:, pick.place], kind)
    offsets = np.arange(0, table.size + 1, table.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), _cast(table.reshape(-1), kind.value_type), type=kind)


def _cast(values: np.ndarray, kind: pa.DataType) -> pa.Array:
    if values.dtype.kind in "OUS":
        return pa.array(values.tolist(), pa.string()).cast(kind)
    array = pa.array(np.ascontiguousarray(values))
    if pa.types.is_decimal(kind) and pa.types.is_integer(array.type):
        array = array.cast(pa.decimal128(38, kind.scale))
    return array.cast(kind, safe=not pa.types.is_floating(kind))
