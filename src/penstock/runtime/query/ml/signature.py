"""The inputs and outputs of an ONNX model, compared with the SQL. No model is run here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from penstock.errors import PlanRefused

Kind: TypeAlias = Literal["fraction", "whole", "truth", "text"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output. `type` is the name of its ONNX type; a size that is not fixed is None."""

    name: str
    type: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ", ".join("N" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.type.removeprefix('tensor(').removesuffix(')')}[{sizes}]"


@dataclass(frozen=True, slots=True)
class Signature:
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Pick:
    """The output of a field of the answer: one of its columns, or all of them as an array if `place` is None.

    `width` is the number of columns that the output must have; None for any number.
    """

    output: str
    place: int | None
    width: int | None


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The struct that a model answers with, and the output of each field."""

    type: StructType
    picks: tuple[Pick, ...]


ELEMENTS: Final[dict[str, tuple[str, Kind, DataType]]] = {
    "tensor(float16)": ("float16", "fraction", FloatType()),
    "tensor(float)": ("float32", "fraction", FloatType()),
    "tensor(double)": ("float64", "fraction", DoubleType()),
    "tensor(int8)": ("int8", "whole", ByteType()),
    "tensor(uint8)": ("uint8", "whole", ShortType()),
    "tensor(int16)": ("int16", "whole", ShortType()),
    "tensor(uint16)": ("uint16", "whole", IntegerType()),
    "tensor(int32)": ("int32", "whole", IntegerType()),
    "tensor(uint32)": ("uint32", "whole", LongType()),
    "tensor(int64)": ("int64", "whole", LongType()),
    "tensor(bool)": ("bool", "truth", BooleanType()),
    "tensor(string)": ("object", "text", StringType()),
}
"""By ONNX type: NumPy's name, the kind of value, and the Spark type."""
_TAKES: Final[dict[Kind, tuple[type[DataType], ...]]] = {
    "fraction": (IntegralType, FloatType, DoubleType, DecimalType, BooleanType),
    "whole": (IntegralType, BooleanType),
    "truth": (BooleanType,),
    "text": (StringType,),
}
_GIVES: Final[dict[Kind, tuple[type[DataType], ...]]] = {
    "fraction": (FloatType, DoubleType, DecimalType),
    "whole": (IntegralType, FloatType, DoubleType, DecimalType, BooleanType, StringType),
    "truth": (BooleanType, IntegralType, StringType),
    "text": (StringType,),
}
_CASTS: Final[dict[Kind, str]] = {"fraction": "DOUBLE", "whole": "BIGINT", "truth": "BOOLEAN", "text": "STRING"}


def signature_of(session: Any) -> Signature:
    def tensors(nodes: Any) -> tuple[Tensor, ...]:
        return tuple(Tensor(n.name, n.type, tuple(d if isinstance(d, int) else None for d in n.shape)) for n in nodes)

    return Signature(tensors(session.get_inputs()), tensors(session.get_outputs()))


def is_stacked(inputs: Sequence[Tensor]) -> bool:
    """Whether the arguments are the columns of one input, rather than one input each."""
    return len(inputs) == 1 and len(inputs[0].shape) == 2 and inputs[0].shape[1] != 1


# Inputs


def check_arguments(model: str, inputs: Sequence[Tensor], arguments: Sequence[DataType]) -> None:
    """Refuse arguments that the model does not accept."""
    for tensor in inputs:
        _check_input(model, tensor, alone=len(inputs) == 1)
    stacked = is_stacked(inputs)
    wanted = inputs[0].shape[1] if stacked else len(inputs)
    if wanted is not None and len(arguments) != wanted:
        given = ", ".join(a.simpleString() for a in arguments)
        takes = f"{_describe_count(wanted)} ({_describe_tensors(inputs)})"
        text = f"`{model}` takes {takes}, and the SQL gives it {len(arguments)} ({given})"
        raise _mismatch(text, "the arguments after the name go to the inputs in their order")
    for position, argument in enumerate(arguments):
        tensor = inputs[0] if stacked else inputs[position]
        _, kind, _ = ELEMENTS[tensor.type]
        if not isinstance(argument, _TAKES[kind]):
            text = f"argument {position + 1} for `{model}` is {argument.simpleString()}, and the model takes {tensor}"
            raise _mismatch(text, f"write CAST(… AS {_CASTS[kind]}), if that is what the model was trained on")


def _check_input(model: str, tensor: Tensor, *, alone: bool) -> None:
    if tensor.type not in ELEMENTS:
        text = f"`{model}` takes {tensor}, which no column can be"
        raise _mismatch(text, "export it with tensors of numbers or texts")
    if tensor.shape and tensor.shape[0] is not None:
        text = f"`{model}` takes {tensor.shape[0]} row(s) at a time: {tensor}"
        raise _mismatch(text, "export it with a first axis of any size")
    flat = len(tensor.shape) == 1 or (len(tensor.shape) == 2 and (alone or tensor.shape[1] == 1))
    if not flat:
        text = f"`{model}` takes {tensor}, which cannot be filled from columns"
        raise _mismatch(text, "an input is one column, [N] or [N, 1]; a single input may have all of them, [N, k]")


# Outputs


def answer_of(model: str, outputs: Sequence[Tensor], declared: StructType | None) -> ModelAnswer:
    """Return how the outputs become the declared answer, or without one the answer that the model describes itself."""
    if declared is None:
        return _own_answer(model, outputs)
    by_name = {tensor.name.casefold(): tensor for tensor in outputs}
    named = [by_name.get(field.name.casefold()) for field in declared]
    if all(tensor is not None and _fills_one(tensor, field) for tensor, field in zip(named, declared, strict=True)):
        picks = tuple(_pick_whole(tensor, field) for tensor, field in zip(named, declared, strict=True) if tensor)
    else:
        picks = _pick_by_position(model, outputs, declared)
    types = {tensor.name: tensor for tensor in outputs}
    for pick, field in zip(picks, declared, strict=True):
        tensor = types[pick.output]
        _check_output(model, tensor)
        kind = field.dataType.elementType if pick.place is None else field.dataType  # type: ignore[attr-defined]
        if not isinstance(kind, _GIVES[ELEMENTS[tensor.type][1]]):
            text = f"`{model}` gives {tensor}, and `ml_outputs` has `{field.name}` as {field.dataType.simpleString()}"
            raise _mismatch(text, "declare the type that the model gives")
    return ModelAnswer(declared, picks)


def _pick_by_position(model: str, outputs: Sequence[Tensor], declared: StructType) -> tuple[Pick, ...]:
    """Assign the columns of all outputs, one after the other, to the fields in order."""
    for tensor in outputs:
        _check_output(model, tensor)
    open_ended = [tensor for tensor in outputs if _width(tensor) is None]
    known = sum(_width(tensor) or 0 for tensor in outputs)
    left = len(declared) - known
    if len(open_ended) > 1 or (left < 1 if open_ended else left != 0):
        fields = ", ".join(f"{field.name}: {field.dataType.simpleString()}" for field in declared)
        count = _describe_count(len(declared))
        text = f"`{model}` gives {_describe_tensors(outputs)}, and `ml_outputs` has {count} ({fields})"
        raise _mismatch(text, "name the outputs that you want, or declare one field for every column of them")
    picks = []
    for tensor in outputs:
        width = left if _width(tensor) is None else _width(tensor)
        picks += [Pick(tensor.name, place, width) for place in range(width or 0)]
    names = {tensor.name.casefold() for tensor in outputs}
    for pick, field in zip(picks, declared, strict=True):
        if field.name.casefold() in names and pick.output.casefold() != field.name.casefold():
            text = f"by its position, `{field.name}` of `ml_outputs` would get the output `{pick.output}` of `{model}`"
            hint = f"the model gives {_describe_tensors(outputs)}; declare all fields by these names, or none"
            raise _mismatch(text, hint)
    return tuple(picks)


def _own_answer(model: str, outputs: Sequence[Tensor]) -> ModelAnswer:
    for tensor in outputs:
        _check_output(model, tensor)
    fields, picks = [], []
    for tensor in outputs:
        _, _, kind = ELEMENTS[tensor.type]
        field = StructField(tensor.name, kind if _width(tensor) == 1 else ArrayType(kind))
        fields.append(field)
        picks.append(_pick_whole(tensor, field))
    return ModelAnswer(StructType(fields), tuple(picks))


def _fills_one(tensor: Tensor, field: StructField) -> bool:
    """Whether an output as a whole is one field."""
    return isinstance(field.dataType, ArrayType) or tensor.type not in ELEMENTS or _width(tensor) == 1


def _pick_whole(tensor: Tensor, field: StructField) -> Pick:
    if isinstance(field.dataType, ArrayType):
        return Pick(tensor.name, None, _width(tensor))
    return Pick(tensor.name, 0, 1)


def _check_output(model: str, tensor: Tensor) -> None:
    if tensor.type.startswith(("seq(", "map(")):
        text = f"`{model}` gives `{tensor.name}` as {tensor.type}: a list of maps, one a row"
        raise _mismatch(text, "export the classifier without ZipMap: `zipmap=False`, or `options={'zipmap': False}`")
    if tensor.type not in ELEMENTS or len(tensor.shape) > 2:
        raise _mismatch(f"`{model}` gives {tensor}, which no column can hold", "let it give [N], [N, 1] or [N, m]")


def _width(tensor: Tensor) -> int | None:
    """Return the number of columns of an output; None if it is not fixed."""
    return tensor.shape[1] if len(tensor.shape) == 2 else 1


def _describe_tensors(tensors: Sequence[Tensor]) -> str:
    return ", ".join(map(str, tensors))


def _describe_count(number: int) -> str:
    return f"{number} value{'s' if number != 1 else ''}"


def _mismatch(text: str, hint: str) -> PlanRefused:
    return PlanRefused("ml-model-mismatch", text, hint=hint)
