"""What ONNX models take and give, compared with SQL; and batches through real models, without Spark."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from penstock.errors import PlanRefused
from penstock.runtime.query.ml.scoring import Recipe, open_session, score
from penstock.runtime.query.ml.signature import ModelAnswer, Pick, Tensor, answer_of, check_arguments, signature_of
from tests import onnx_models


def tensor(name: str, kind: str, *shape: int | None) -> Tensor:
    return Tensor(name, f"tensor({kind})", shape)


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


STACKED = (tensor("x", "float", None, 2),)
NUMBERS: list[DataType] = [DoubleType(), LongType()]


@pytest.mark.parametrize(
    ("inputs", "arguments"),
    [
        (STACKED, [DecimalType(10, 2), BooleanType()]),
        ((tensor("x", "float", None, None),), NUMBERS),
        ((tensor("x", "float", None),), [FloatType()]),
        ((tensor("x", "int64", None, 1),), [IntegerType()]),
        ((tensor("a", "string", None, 1), tensor("b", "bool", None)), [StringType(), BooleanType()]),
    ],
)
def test_arguments_that_fit(inputs: tuple[Tensor, ...], arguments: list[DataType]) -> None:
    check_arguments("F", inputs, arguments)


@pytest.mark.parametrize(
    ("inputs", "arguments", "said"),
    [
        (STACKED, [DoubleType()], "takes 2 values (x: float[N, 2]), and the SQL gives it 1 (double)"),
        (STACKED, [DoubleType(), DateType()], "argument 2 for `F` is date"),
        (
            (tensor("x", "int64", None),),
            [DoubleType()],
            "argument 1 for `F` is double, and the model takes x: int64[N]",
        ),
        ((tensor("x", "string", None),), [LongType()], "argument 1 for `F` is bigint"),
        ((tensor("x", "bool", None),), [LongType()], "argument 1 for `F` is bigint"),
        ((tensor("x", "float", 1, 2),), NUMBERS, "takes 1 row(s) at a time"),
        ((tensor("x", "float", None, 3, 2),), NUMBERS, "cannot be filled from columns"),
        ((tensor("a", "float", None, 2), tensor("b", "float", None)), NUMBERS, "cannot be filled from columns"),
        ((tensor("x", "complex64", None),), [DoubleType()], "which no column can be"),
        ((Tensor("x", "seq(tensor(float))", ()),), [DoubleType()], "which no column can be"),
    ],
)
def test_arguments_that_do_not_fit(inputs: tuple[Tensor, ...], arguments: list[DataType], said: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        check_arguments("F", inputs, arguments)
    assert caught.value.code == "ml-model-mismatch"
    assert said in caught.value.message
    assert caught.value.hint


CLASSIFIER = (tensor("label", "int64", None), tensor("probabilities", "float", None, 2))


@pytest.mark.parametrize(
    ("outputs", "declared", "picks"),
    [
        (CLASSIFIER, struct(LABEL=StringType()), [("label", 0)]),
        (CLASSIFIER, struct(probabilities=ArrayType(DoubleType())), [("probabilities", None)]),
        (
            CLASSIFIER,
            struct(label=BooleanType(), no=FloatType(), yes=DecimalType(5, 4)),
            [("label", 0), ("probabilities", 0), ("probabilities", 1)],
        ),
        ((tensor("y", "float", None, None),), struct(a=DoubleType(), b=DoubleType()), [("y", 0), ("y", 1)]),
        ((tensor("y", "float", None, 1),), struct(other=DoubleType()), [("y", 0)]),
    ],
)
def test_answers_that_fit(outputs: tuple[Tensor, ...], declared: StructType, picks: list[object]) -> None:
    answer = answer_of("F", outputs, declared)
    assert answer.type == declared
    assert [(pick.output, pick.place) for pick in answer.picks] == picks


SWAPPED = (tensor("confidence", "float", None), tensor("other", "float", None))


@pytest.mark.parametrize(
    ("outputs", "declared", "said"),
    [
        (CLASSIFIER, struct(a=DoubleType(), b=DoubleType()), "and `ml_outputs` has 2 values (a: double, b: double)"),
        (CLASSIFIER, struct(label=DateType()), "`ml_outputs` has `label` as date"),
        ((tensor("y", "float", None),), struct(y=LongType()), "gives y: float[N], and `ml_outputs` has `y` as bigint"),
        ((tensor("y", "string", None),), struct(y=DoubleType()), "`ml_outputs` has `y` as double"),
        ((tensor("y", "float", None, 2, 2),), struct(y=ArrayType(FloatType())), "which no column can hold"),
        ((Tensor("y", "seq(map(int64,tensor(float)))", ()),), struct(y=DoubleType()), "a list of maps"),
        (SWAPPED, struct(fraud=DoubleType(), confidence=DoubleType()), "would get the output `other`"),
    ],
)
def test_answers_that_do_not_fit(outputs: tuple[Tensor, ...], declared: StructType, said: str) -> None:
    with pytest.raises(PlanRefused) as caught:
        answer_of("F", outputs, declared)
    assert caught.value.code == "ml-model-mismatch"
    assert said in caught.value.message
    assert caught.value.hint


def test_a_model_tells_its_own_answer() -> None:
    answer = answer_of("F", CLASSIFIER, None)
    assert answer.type == struct(label=LongType(), probabilities=ArrayType(FloatType()))


# Batches


def recipe(path: Path, declared: StructType | None) -> Recipe:
    found = signature_of(open_session(path.read_bytes()))
    answer = answer_of("F", found.outputs, declared)
    return Recipe("F", str(path), found.inputs, answer, to_arrow_type(answer.type))


def test_an_array_takes_a_whole_row_of_an_output(tmp_path: Path) -> None:
    file = tmp_path / "c.onnx"
    onnx_models.classifier(file)
    made = recipe(file, struct(probabilities=ArrayType(DoubleType())))
    found = score(made, file.read_bytes, [pa.array([0, None, 1000]), pa.array([0.0, 1.0, 0.0])])
    assert found.to_pylist() == [{"probabilities": [0.5, 0.5]}, None, {"probabilities": [1.0, 0.0]}]


def test_a_process_opens_a_model_once(tmp_path: Path) -> None:
    file = tmp_path / "f.onnx"
    onnx_models.fraud(file)
    reads: list[int] = []

    def read() -> bytes:
        reads.append(1)
        return file.read_bytes()

    made = recipe(file, None)
    for _ in range(3):
        assert len(score(made, read, [pa.array([1.0]), pa.array([2.0])])) == 1
    assert len(reads) == 1


def test_no_rows_are_no_answers(tmp_path: Path) -> None:
    file = tmp_path / "f.onnx"
    onnx_models.fraud(file)
    assert (
        len(score(recipe(file, None), file.read_bytes, [pa.array([], pa.float64()), pa.array([], pa.float64())])) == 0
    )


def test_an_output_of_another_width_than_it_should_have_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "f.onnx"
    onnx_models.fraud(file)
    right = recipe(file, None)
    answer = ModelAnswer(struct(a=FloatType()), (Pick("scores", 0, 3),))
    wrong = Recipe("F", right.content, right.inputs, answer, to_arrow_type(answer.type))
    with pytest.raises(ValueError, match=r"gave `scores` as \[1, 2\], where \[1, 3\] was expected"):
        score(wrong, file.read_bytes, [pa.array([1.0]), pa.array([2.0])])


def test_a_whole_number_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "t.onnx"
    onnx_models.by_text(file)
    made = recipe(file, struct(label=StringType(), risk=DecimalType(3, 2)))
    with pytest.raises(pa.ArrowInvalid):
        score(made, file.read_bytes, [pa.array(["a"]), pa.array([1e9]), pa.array([1])])
