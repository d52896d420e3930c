"""A user function over a batch of rows, as executors call it; without Spark."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError, QueryFailed
from penstock.runtime.query.functions.calls import FunctionDefect, FunctionRecipe, apply_function

NUMBER = 0
BIGINT, STRING, DOUBLE = pa.int64(), pa.string(), pa.float64()


def called(
    source: str,
    *columns: Sequence[Any],
    takes: Sequence[pa.DataType] = (BIGINT,),
    gives: pa.DataType = BIGINT,
    **files: str,
) -> tuple[list[Any], list[str | None]]:
    """The values and the errors of a function `f` of `functions/m.py`."""
    global NUMBER
    NUMBER += 1
    sources = {"functions/m.py": f"import pyarrow as pa\nimport pyarrow.compute as pc\n{source}\n"}
    sources |= {f"functions/{name.replace('__', '/')}.py": text for name, text in files.items()}
    recipe = FunctionRecipe("f", "functions/m.py", f"test{NUMBER}", tuple(takes), "BIGINT", gives)
    given = [pa.array(column) for column in columns]
    rows = apply_function(recipe, lambda: sources, given)
    assert len(rows) == len(given[0])
    return rows.field("value").to_pylist(), rows.field("error").to_pylist()


def failure(source: str, *columns: Sequence[Any], **options: Any) -> PenstockError:
    with pytest.raises(FunctionDefect) as caught:
        called(source, *columns, **options)
    found = PenstockError.received(f"PythonException: Traceback\n  {caught.value}\n at java")
    assert isinstance(found, QueryFailed)
    assert not found.retriable
    return found


def test_rows_that_raise_are_alone_and_the_others_have_values() -> None:
    source = """
def f(x):
    if pc.any(pc.equal(x, 7)).as_py():
        raise ValueError("seven is\\n  not allowed")
    return pc.multiply(x, 2)
"""
    values, errors = called(source, [*range(10), None])
    assert values == [0, 2, 4, 6, 8, 10, 12, None, 16, 18, None]
    assert [at for at, text in enumerate(errors) if text] == [7]
    assert errors[7] == "[USER_FUNCTION.F] ValueError: seven is not allowed"


def test_a_batch_without_rows_calls_nothing() -> None:
    assert called("def f(x): raise ValueError", pa.array([], BIGINT)) == ([], [])


def test_rows_of_which_all_raise_have_an_error_each_and_a_long_text_is_cut() -> None:
    values, errors = called("def f(x): raise KeyError('k' * 1000)", [1, 2, 3])
    assert values == [None] * 3
    assert all(text is not None and len(text) < 340 for text in errors)
    assert called("import sys\ndef f(x): sys.exit(3)", [1])[1] == ["[USER_FUNCTION.F] SystemExit: 3"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("None", "the function `f` returned None, and not a pyarrow.Array"),
        ("[1, 2]", "the function `f` returned a list, and not a pyarrow.Array"),
        ("pc.sum(x)", "the function `f` returned a Int64Scalar, and not a pyarrow.Array"),
        ("x.slice(1)", "the function `f` returned 1 values for 2 rows"),
        ("x.cast('string')", "the function `f` returned string, and its hint is BIGINT"),
    ],
)
def test_a_function_that_breaks_its_promise_ends_the_query(body: str, message: str) -> None:
    found = failure(f"def f(x): return {body}", [1, 2])
    assert (found.code, found.message) == ("function-failed", message)
    assert found.hint


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_package_that_is_absent\ndef f(x): return x", "No module named 'a_package_that_is_absent'"),
        ("def f(x):\n    import a_package_that_is_absent", "No module named 'a_package_that_is_absent'"),
        ("1 / 0\ndef f(x): return x", "ZeroDivisionError"),
        ("def f(x): return x\ndel f", "AttributeError"),
        ("raise SystemExit(1)", "SystemExit"),
    ],
)
def test_a_module_that_cannot_be_imported_ends_the_query(source: str, reason: str) -> None:
    found = failure(source, [1])
    assert found.code == "function-import"
    assert found.message.startswith("`functions/m.py`, with the function `f`, cannot be imported: ")
    assert reason in found.message


def test_files_import_each_other_and_each_version_is_loaded_anew() -> None:
    source = (
        "from . import b\nfrom .geo.area import twice\nfrom .b import ONE\ndef f(x): return pc.add(twice(x), b.ONE)"
    )
    other = {"geo__area": "from ..b import TWO\nimport pyarrow.compute as pc\ndef twice(x): return pc.multiply(x, TWO)"}
    assert called(source, [5], b="ONE = 1\nTWO = 2", **other)[0] == [11]
    assert called(source, [5], b="ONE = 2\nTWO = 3", **other)[0] == [17]


def test_the_example_of_the_guide_runs() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "functions.md").read_text(encoding="utf-8")
    source = guide.split("```python\n")[1].split("```")[0]
    assert called(f"{source}\nf = initial", ["anna", None], takes=[STRING], gives=STRING)[0] == ["A", None]
    prices, types = [Decimal("10.50")], {"takes": [pa.decimal128(10, 2)], "gives": pa.decimal128(14, 4)}
    assert called(f"{source}\nf = gross", prices, **types)[0] == [Decimal("12.4950")]


@pytest.mark.parametrize(
    ("column", "takes", "gives", "values"),
    [
        (pa.array([1, 2], pa.int32()), BIGINT, BIGINT, [1, 2]),
        (pa.array([1], pa.int64()), pa.decimal128(10, 2), pa.decimal128(12, 4), [Decimal(1)]),
        (pa.array([Decimal("1.50")]), DOUBLE, DOUBLE, [1.5]),
        (pa.array(["a"], pa.large_string()), STRING, STRING, ["a"]),
        (pa.array(["a", "a"]).dictionary_encode(), STRING, STRING, ["a", "a"]),
        (pa.array([None, None]), STRING, STRING, [None, None]),
        (pa.array([["a"]]), pa.list_(STRING), pa.list_(STRING), [["a"]]),
    ],
)
def test_arguments_and_results_are_converted(column: pa.Array, takes: Any, gives: Any, values: list[Any]) -> None:
    assert called("def f(x): return x", column, takes=[takes], gives=gives) == (values, [None] * len(values))


@pytest.mark.parametrize(
    ("body", "takes", "gives"),
    [
        ("x", [pa.int16()], BIGINT),
        ("x", [BIGINT], pa.int8()),
        ("pc.divide(pc.cast(x, 'double'), 3)", [BIGINT], BIGINT),
        ("x", [BIGINT], pa.decimal128(4, 2)),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_of_its_row(body: str, takes: Any, gives: pa.DataType) -> None:
    values, errors = called(f"def f(x): return {body}", [3, 100_000], takes=takes, gives=gives)
    assert values[0] is not None
    assert values[1] is None
    assert errors[0] is None
    assert str(errors[1]).startswith("[USER_FUNCTION.F] ArrowInvalid: ")


@pytest.mark.parametrize(
    ("body", "gives"),
    [
        ("pc.cast(x, 'double')", pa.decimal128(10, 2)),
        ("pc.cast(x, 'double')", pa.float32()),
        ("pc.cast(x, pa.decimal128(20, 0))", DOUBLE),
        ("pc.cast(x, pa.timestamp('us'))", pa.timestamp("us", "UTC")),
        ("pc.equal(x, 1)", BIGINT),
    ],
)
def test_a_result_that_would_be_rounded_or_reinterpreted_is_refused(body: str, gives: pa.DataType) -> None:
    assert failure(f"def f(x): return {body}", [1], gives=gives).code == "function-failed"
