"""Models of machine learning, asked by SQL: real ONNX files, run by Spark, compared with NumPy."""

import math
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from penstock.errors import PenstockError, PlanRefused, QueryFailed, ServiceError
from penstock.plan.explain import explain
from penstock.workflow.stages import check, compile_project, plan_project
from tests import onnx_models
from tests.spark.running import Running

SOURCE = """
project: {name: fraud}
runtime:
  ml: {models: {FraudModel: {path: models/fraud.onnx}}}
sources:
  - name: payments
    topic: payments.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: amount, type: "DECIMAL(10, 2)"}
      - {name: rate, type: DOUBLE}
      - {name: count, type: INT}
      - {name: merchant, type: STRING}
      - {name: paid_at, type: TIMESTAMP(3)}
"""
ROWS: list[dict[str, Any]] = [
    {"id": 1, "amount": 10.5, "rate": 0.25, "count": 3, "merchant": "a"},
    {"id": 2, "amount": -4.25, "rate": 8.0, "count": 0, "merchant": "b"},
    {"id": 3, "amount": 0, "rate": -7.5, "count": -1, "merchant": "ü"},
    {"id": 4, "amount": None, "rate": 1.0, "count": 1, "merchant": "a"},
    {"id": 5, "amount": 1.0, "rate": None, "count": 1, "merchant": None},
]
TWO = "{FraudModel: {fraud_score: DOUBLE, confidence: DOUBLE}}"
PREDICT = "ML_PREDICT('FraudModel', amount, rate)"


def written(running: Running, *models: str) -> Running:
    """A project of models, each as `name | sql | ml_outputs`."""
    text = SOURCE + "models:\n"
    for model in models:
        name, sql, outputs = (part.strip() for part in model.split("|"))
        text += f"  - name: {name}\n    sql: >-\n      {sql}\n    ml_outputs: {outputs or '{}'}\n"
    running.write({"stream_project.yml": text})
    return running


def scored(running: Running, sql: str, outputs: str = "", rows: list[dict[str, Any]] = ROWS) -> dict[int, Any]:
    written(running, f"scores | {sql} | {outputs}")
    running.drop("payments.v1", "a.jsonl", rows)
    running.run()
    return {row["id"]: row for row in running.topic("scores")}


def refused(running: Running, sql: str, outputs: str = "") -> PenstockError:
    written(running, f"scores | {sql} | {outputs}")
    running.drop("payments.v1", "a.jsonl", ROWS)
    with pytest.raises(PenstockError) as caught:
        running.run()
    assert not (running.place.checkpoint("scores") / "offsets").exists()
    return caught.value


def expected() -> dict[int, tuple[float, float]]:
    """By NumPy: rows without nulls only."""
    x = np.array([[row["amount"], row["rate"]] for row in ROWS[:3]])
    return {row["id"]: (float(a), float(b)) for row, (a, b) in zip(ROWS, onnx_models.logistic(x), strict=False)}


@pytest.fixture
def fraud(running: Running) -> Running:
    onnx_models.fraud(running.root / "models/fraud.onnx")
    return running


@pytest.mark.parametrize("call", [PREDICT, PREDICT.replace("'", ""), PREDICT.replace("PREDICT", "EVALUATE")])
def test_the_answers_are_those_that_numpy_computes(fraud: Running, call: str) -> None:
    found = scored(fraud, f'SELECT id, {call} AS prediction FROM {{{{ source("payments") }}}}', TWO)
    for number, (score, rest) in expected().items():
        assert found[number]["prediction"]["fraud_score"] == pytest.approx(score, rel=1e-5)
        assert found[number]["prediction"]["confidence"] == pytest.approx(rest, rel=1e-5)


def test_a_row_with_a_null_among_the_arguments_has_a_null_answer(fraud: Running) -> None:
    found = scored(fraud, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}', TWO)
    assert found.keys() == {1, 2, 3, 4, 5}
    assert found[4]["p"] is None
    assert found[5]["p"] is None


def test_a_batch_of_nothing_but_nulls_asks_nobody(fraud: Running) -> None:
    rows = [{"id": 1, "amount": None, "rate": 1.0}, {"id": 2, "amount": 1.0, "rate": None}]
    found = scored(fraud, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}', TWO, rows)
    assert [found[n]["p"] for n in (1, 2)] == [None, None]


def test_not_a_number_is_a_number_to_the_model(fraud: Running) -> None:
    sql = "SELECT id, ML_PREDICT('FraudModel', CAST('NaN' AS DOUBLE), rate) AS p FROM {{ source(\"payments\") }}"
    found = scored(fraud, sql, TWO)
    assert math.isnan(found[1]["p"]["fraud_score"])
    assert found[5]["p"] is None


def test_a_field_of_the_answer_can_be_taken_and_filtered_by(fraud: Running) -> None:
    sql = f'SELECT id, {PREDICT}.fraud_score AS s FROM {{{{ source("payments") }}}} WHERE {PREDICT}.confidence > 0.1'
    found = scored(fraud, sql, TWO)
    scores = expected()
    assert found.keys() == {number for number, (_, rest) in scores.items() if rest > 0.1} != scores.keys()
    assert all(row["s"] == pytest.approx(scores[n][0], rel=1e-5) for n, row in found.items())


def test_a_second_model_reads_the_fields_and_a_view_may_stand_between(fraud: Running) -> None:
    written(
        fraud,
        f'scores | SELECT id, {PREDICT} AS prediction FROM {{{{ source("payments") }}}} | {TWO}',
        'sure | SELECT id, prediction.fraud_score AS s FROM {{ ref("scores") }} WHERE prediction.confidence < 0.1 |',
    )
    fraud.drop("payments.v1", "a.jsonl", ROWS)
    fraud.run()
    found = {row["id"]: row["s"] for row in fraud.topic("sure")}
    wanted = {number: score for number, (score, rest) in expected().items() if rest < 0.1}
    assert found == {number: pytest.approx(score, rel=1e-5) for number, score in wanted.items()} != {}
    assert {row["id"] for row in fraud.show("model.scores")} == {1, 2, 3, 4, 5}


def test_answers_can_be_summed_up_in_a_window(fraud: Running) -> None:
    rows = [{**row, "paid_at": f"2026-01-01T00:0{row['id']}:00Z"} for row in ROWS[:3]]
    rows.append({"id": 9, "amount": 1, "rate": 1, "paid_at": "2026-01-02T00:00:00Z"})
    sql = (
        f'SELECT COUNT(*) AS id, SUM({PREDICT}.fraud_score) AS total FROM {{{{ source("payments") }}}} '
        "GROUP BY TUMBLE(paid_at, INTERVAL '1' HOUR)"
    )
    found = scored(fraud, sql, TWO, rows)
    assert found[3]["total"] == pytest.approx(sum(score for score, _ in expected().values()), rel=1e-5)


def test_outputs_go_by_name_whatever_their_order(running: Running) -> None:
    onnx_models.two_outputs(running.root / "models/fraud.onnx")
    found = scored(running, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}', TWO)
    assert found[1]["p"] == {"fraud_score": -10.75, "confidence": 10.75}


def test_inputs_of_different_types_each_take_an_argument(running: Running) -> None:
    onnx_models.by_text(running.root / "models/fraud.onnx")
    sql = "SELECT id, ML_PREDICT('FraudModel', merchant, rate, `count`) AS p FROM {{ source(\"payments\") }}"
    outputs = '{FraudModel: {columns: [{name: label, type: STRING}, {name: risk, type: "DECIMAL(12, 3)"}]}}'
    found = scored(running, sql, outputs)
    assert [found[n]["p"] and found[n]["p"]["label"] for n in (1, 2, 3, 4, 5)] == ["a", "b", "ü", "a", None]
    assert found[1]["p"]["risk"] == Decimal("1.125")
    assert found[2]["p"]["risk"] == 0
    assert found[3]["p"]["risk"] == Decimal("3.750")


def test_without_ml_outputs_the_answer_is_the_models_own(running: Running) -> None:
    onnx_models.classifier(running.root / "models/fraud.onnx")
    found = scored(running, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}')
    assert found[1]["p"]["label"] == 0
    assert found[2]["p"]["label"] == 1
    assert found[1]["p"]["probabilities"] == pytest.approx([1, 3.5e-5], rel=0.1)


def test_columns_of_several_outputs_fill_the_fields_in_their_order(running: Running) -> None:
    onnx_models.classifier(running.root / "models/fraud.onnx")
    sql = f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}'
    found = scored(running, sql, "{FraudModel: {is_fraud: BOOLEAN, not_so: FLOAT, so: DOUBLE}}")
    assert (found[1]["p"]["is_fraud"], found[2]["p"]["is_fraud"]) == (False, True)
    assert found[3]["p"]["not_so"] == pytest.approx(1 / (1 + math.exp(-7.5)), rel=1e-5)
    assert found[3]["p"]["not_so"] + found[3]["p"]["so"] == pytest.approx(1)


# What does not fit


def test_another_number_of_arguments_is_refused_before_anything_starts(fraud: Running) -> None:
    sql = "SELECT id, ML_PREDICT('FraudModel', amount, rate, `count`) AS p FROM {{ source(\"payments\") }}"
    error = refused(fraud, sql, TWO)
    assert (error.code, type(error)) == ("ml-model-mismatch", PlanRefused)
    assert "takes 2 values (x: float[N, 2])" in error.message
    assert "gives it 3 (decimal(10,2), double, int)" in error.message
    assert error.context == ["query `scores` cannot be started"]


def test_an_argument_of_another_type_is_refused(fraud: Running) -> None:
    sql = "SELECT id, ML_PREDICT('FraudModel', amount, merchant) AS p FROM {{ source(\"payments\") }}"
    error = refused(fraud, sql, TWO)
    assert error.code == "ml-model-mismatch"
    assert "argument 2 for `FraudModel` is string" in error.message
    assert error.hint is not None
    assert "CAST(… AS DOUBLE)" in error.hint


def test_another_number_of_outputs_is_refused(fraud: Running) -> None:
    sql = f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}'
    error = refused(fraud, sql, "{FraudModel: {score: DOUBLE}}")
    assert error.code == "ml-model-mismatch"
    assert "gives scores: float[N, 2]" in error.message
    assert "1 value (score: double)" in error.message


def test_a_list_of_maps_is_refused_with_the_way_to_export_it(running: Running) -> None:
    onnx_models.classifier(running.root / "models/fraud.onnx", zipmap=True)
    error = refused(running, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}')
    assert error.code == "ml-model-mismatch"
    assert "zipmap=False" in str(error.hint)


def test_a_file_that_is_no_model_is_told_from_one(running: Running) -> None:
    (running.root / "models").mkdir()
    (running.root / "models/fraud.onnx").write_bytes(b"not a model")
    error = refused(running, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}', TWO)
    assert (error.code, type(error)) == ("ml-model-unreadable", ServiceError)
    assert "models/fraud.onnx" in error.message


def test_without_onnxruntime_the_error_says_what_to_install(fraud: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # as if it were not installed
    error = refused(fraud, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}', TWO)
    assert (error.code, error.hint) == ("package-missing", 'pip install "penstock[ml]"')


def test_a_model_whose_file_is_not_there_is_refused_by_plan(running: Running) -> None:
    error = refused(running, f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}', TWO)
    assert (error.code, type(error)) == ("ml-model-missing", PlanRefused)


def test_a_value_that_the_model_cannot_take_stops_the_query_with_its_reason(running: Running) -> None:
    onnx_models.by_text(running.root / "models/fraud.onnx")
    sql = "SELECT id, ML_PREDICT('FraudModel', merchant, rate, `count`) AS p FROM {{ source(\"payments\") }}"
    written(running, f'scores | {sql} | {{FraudModel: {{label: STRING, risk: "DECIMAL(3, 2)"}}}}')
    running.drop("payments.v1", "a.jsonl", [{"id": 1, "merchant": "a", "rate": 1e9, "count": 1}])
    with pytest.raises(QueryFailed) as caught:
        running.run()
    assert "Traceback" not in caught.value.message
    assert "1500000000" in caught.value.message


def test_another_file_under_the_same_name_is_shown_by_plan_and_asked_from_then_on(fraud: Running) -> None:
    sql = f'SELECT id, {PREDICT} AS p FROM {{{{ source("payments") }}}}'
    scored(fraud, sql, TWO)
    onnx_models.fraud(fraud.root / "models/fraud.onnx", scale=0.0)
    fraud.drop("payments.v1", "b.jsonl", [{"id": 7, "amount": 5, "rate": 5}])
    checked = check(fraud.root)
    lines = [str(explain(step)) for step in plan_project(checked, compile_project(checked)).changes]
    assert lines == ["~ restart query scores: an ML model that it calls changed; resumes where it stopped"]
    fraud.run()
    found = {row["id"]: row["p"]["fraud_score"] for row in fraud.topic("scores") if row["p"]}
    assert found[7] == pytest.approx(1 / (1 + math.exp(-0.1)), rel=1e-5)
    assert found[1] == pytest.approx(expected()[1][0], rel=1e-5)
