"""Calls a user function on a batch of rows, on the executors.

An exception is the error of a row: the batch is halved until the rows that raise are alone, and each has a text where
the others have a value. The SQL raises it only for rows that use the value. A function that does not keep its promise,
or whose module cannot be imported, ends the query.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa

from penstock.errors import QueryFailed
from penstock.runtime.query.functions.modules import load_function

_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class FunctionRecipe:
    """A function of a file, and the Arrow types of its arguments and of its result. `digest` identifies all sources."""

    name: str
    file: str
    digest: str
    parameters: tuple[pa.DataType, ...]
    returns: str
    result: pa.DataType


def apply_function(
    recipe: FunctionRecipe, sources: Callable[[], Mapping[str, str]], columns: Sequence[pa.Array]
) -> pa.StructArray:
    """Return a value or an error for each row."""
    function = _load(recipe, sources)
    values: list[pa.Array] = [pa.nulls(0, recipe.result)]
    errors: list[pa.Array] = [pa.nulls(0, pa.string())]
    open_spans = [(0, len(columns[0]))] if len(columns[0]) else []
    while open_spans:
        start, length = open_spans.pop()
        try:
            values.append(_call(recipe, function, [column.slice(start, length) for column in columns]))
            errors.append(pa.nulls(length, pa.string()))
        except (FunctionDefect, MemoryError):
            raise
        except ImportError as error:
            _fail_import(recipe, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's function may raise anything
            if length > 1:
                half = length // 2
                open_spans += [(start + half, length - half), (start, half)]
            else:
                values.append(pa.nulls(1, recipe.result))
                errors.append(pa.array([_error_text(recipe, error)], pa.string()))
    return pa.StructArray.from_arrays([pa.concat_arrays(values), pa.concat_arrays(errors)], ["value", "error"])


def _load(recipe: FunctionRecipe, sources: Callable[[], Mapping[str, str]]) -> Callable[..., Any]:
    try:
        return load_function(recipe.digest, sources, recipe.file, recipe.name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may raise anything
        _fail_import(recipe, error)


def _fail_import(recipe: FunctionRecipe, error: BaseException) -> NoReturn:
    hint = None
    if isinstance(error, ModuleNotFoundError):
        hint = "install the package where Spark's Python workers run; files of `functions/` are imported as `.name`"
    text = f"`{recipe.file}`, with the function `{recipe.name}`, cannot be imported: {_describe(error)}"
    raise FunctionDefect(QueryFailed("function-import", text, hint=hint).to_text) from None


def _call(recipe: FunctionRecipe, function: Callable[..., Any], columns: Sequence[pa.Array]) -> pa.Array:
    given = [cast_exactly(column, kind) for column, kind in zip(columns, recipe.parameters, strict=True)]
    result = function(*given)
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if not isinstance(result, pa.Array):
        shown = "None" if result is None else f"a {type(result).__name__}"
        _fail(recipe, f"returned {shown}, and not a pyarrow.Array", "pa.array(…) makes one of a list or of NumPy")
    if len(result) != len(columns[0]):
        _fail(recipe, f"returned {len(result)} values for {len(columns[0])} rows", "return one value for each row")
    if not _is_castable(result.type, recipe.result):
        hint = f"cast it in the function, or change the hint in {recipe.file}"
        if pa.types.is_timestamp(result.type) and pa.types.is_timestamp(recipe.result):
            hint = 'pc.assume_timezone(…, "UTC") gives times a zone'
        _fail(recipe, f"returned {result.type}, and its hint is {recipe.returns}", hint)
    return cast_exactly(result, recipe.result)


def _fail(recipe: FunctionRecipe, text: str, hint: str) -> NoReturn:
    failure = QueryFailed("function-failed", f"the function `{recipe.name}` {text}", hint=hint)
    raise FunctionDefect(failure.to_text)


class FunctionDefect(RuntimeError):
    """The failure of a function, whatever the row. Spark passes on its text, and `PenstockError.received` parses it."""


def _error_text(recipe: FunctionRecipe, error: BaseException) -> str:
    return f"[USER_FUNCTION.{recipe.name.upper()}] {_describe(error)}"


def _describe(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " …"


# Types


def cast_exactly(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert values without loss; raise for a value that does not fit."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(kind) and pa.types.is_integer(column.type):
        column = column.cast(pa.decimal256(76, kind.scale))
    return column.cast(kind)


def _is_castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether results of a type are converted: only where a value that changes is an error."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None)
    if pa.types.is_nested(wanted):
        return bool(given.id == wanted.id or (pa.types.is_list(wanted) and pa.types.is_large_list(given)))
    if pa.types.is_floating(given):
        is_wider = pa.types.is_floating(wanted) and given.bit_width <= wanted.bit_width
        return bool(pa.types.is_integer(wanted) or is_wider)
    if pa.types.is_integer(given):
        return bool(_is_exact(wanted) or pa.types.is_floating(wanted))
    return any(of(given) and of(wanted) for of in (_is_exact, _is_text, _is_bytes))


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
