"""SQL that asks models of machine learning, as far as `validate` and `plan` look."""

from pathlib import Path

import pytest

from penstock.errors import Severity
from penstock.manifest.model import Manifest
from penstock.plan.deployed.state import NOTHING, Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.sql.types.columns import Column
from penstock.workflow.stages import check as walk
from penstock.workflow.stages import compile_project
from tests.support import codes, errors, only, spot, write
from tests.unit.conftest import MAIN, Check

FILE = {"fraud.onnx": b"one"}


def text(
    sql: str, outputs: str = "{F: {score: DOUBLE}}", runtime: str = "{ml: {models: {F: {path: fraud.onnx}}}}"
) -> str:
    return (
        f"project: {{name: p}}\nruntime: {runtime}\nsources:\n"
        "  - {name: s, topic: s.v1, columns: [{name: id, type: BIGINT}, {name: amount, type: DOUBLE}]}\n"
        f"models:\n  - name: m\n    sql: |\n      {sql}\n    ml_outputs: {outputs}\n"
    )


def asking(call: str) -> str:
    return f"SELECT id, {call} AS p FROM {{{{ source('s') }}}}"


@pytest.mark.parametrize("name", ["'F'", "F", "`F`"])
def test_the_name_of_a_model_is_a_text_or_a_bare_word_and_no_column(check: Check, name: str) -> None:
    graph, found = check({MAIN: text(asking(f"ML_PREDICT({name}, amount)")), **FILE})
    assert found == ()
    assert graph is not None
    node = graph["model.m"]
    assert node.columns == (Column("id", "BIGINT"), Column("p", "STRUCT<`score`: DOUBLE>"))
    assert node.asks == {"F": "STRUCT<`score`: DOUBLE>"}
    assert [origin.name for origin in node.column_origins["p"]] == ["amount"]
    assert node.hindrances == ()


def test_a_model_that_runtime_does_not_have_is_a_warning_and_a_refusal_of_plan(check: Check, tmp_path: Path) -> None:
    sql = asking("ML_PREDICT('G', amount)")
    written = text(sql, "{G: {score: DOUBLE}}", "{}")
    found = only(check({MAIN: written})[1])
    assert (found.code, found.severity, found.origin) == (
        "sql-unsupported",
        Severity.WARNING,
        spot(MAIN, written, "ML_PREDICT"),
    )
    assert found.hint == "add `runtime: {ml: {models: {G: {path: …}}}}`"
    refusals = diff(compile_project(walk(tmp_path)), NOTHING).refusals
    assert [(r.code, r.params["subject"]) for r in refusals] == [("sql-unsupported", "ML_PREDICT")]


def test_the_nearest_name_is_offered_for_one_that_is_not_there(check: Check) -> None:
    runtime = "{ml: {models: {FraudModel: {path: fraud.onnx}}}}"
    written = text(asking("ML_EVALUATE(FraudModle, amount)"), "{FraudModle: {score: DOUBLE}}", runtime)
    found = only(check({MAIN: written, **FILE})[1])
    assert found.origin == spot(MAIN, written, "ML_EVALUATE")
    assert str(found.hint).startswith("did you mean `FraudModel`? ")


def test_a_file_that_is_not_there_is_a_warning_at_its_path_and_a_refusal_of_plan(check: Check, tmp_path: Path) -> None:
    written = text(asking("ML_PREDICT(F, amount)"))
    found = only(check({MAIN: written})[1])
    assert (found.code, found.severity, found.params) == ("ml-model-missing", Severity.WARNING, {"model": "F"})
    assert (found.origin, found.path) == (spot(MAIN, written, "fraud.onnx"), "runtime.ml.models.F.path")
    refusals = diff(compile_project(walk(tmp_path)), NOTHING).refusals
    assert [(r.code, r.params) for r in refusals] == [("ml-model-missing", {"query": "m", "model": "F"})]


def test_the_file_of_an_environment_is_pointed_out_there(check: Check, tmp_path: Path) -> None:
    environment = "runtime: {ml: {models: {F: {path: '${WHERE:-nowhere}/f.onnx'}}}}\n"
    main = text(asking("ML_PREDICT(F, amount)")).replace("runtime: {ml: {models: {F: {path: fraud.onnx}}}}\n", "")
    found = only(check({MAIN: main, "environments/dev.yml": environment})[1])
    assert (found.code, found.origin) == ("ml-model-missing", spot("environments/dev.yml", environment, "'${WHERE"))
    assert "nowhere/f.onnx" in found.message


@pytest.mark.parametrize("call", ["ML_PREDICT()", "ML_PREDICT(1, amount)", "ML_PREDICT(UPPER('f'), amount)"])
def test_a_call_without_the_name_of_a_model_is_an_error(check: Check, call: str) -> None:
    written = text(asking(call), "{}")
    found = only(errors(check({MAIN: written, **FILE})[1]))
    assert (found.code, found.origin) == ("sql-statement", spot(MAIN, written, "ML_PREDICT"))


def test_a_call_without_anything_to_look_at_is_an_error(check: Check) -> None:
    found = only(check({MAIN: text(asking("ML_PREDICT(F)")), **FILE})[1])
    assert (found.code, found.severity) == ("sql-statement", Severity.ERROR)


def test_a_call_in_place_of_a_table_cannot_run_here(check: Check) -> None:
    sql = "SELECT s.id FROM {{ source('s') }} AS s, LATERAL TABLE(ML_PREDICT('F', s.amount))"
    found = [d for d in check({MAIN: text(sql), **FILE})[1] if d.params.get("subject") == "ML_PREDICT"]
    assert [(d.code, d.severity) for d in found] == [("sql-unsupported", Severity.WARNING)]
    assert "in the SELECT" in str(found[0].hint)


@pytest.mark.parametrize("outputs", ["{F: {score: DUOBLE}}", "{F: {columns: [{name: score, type: DUOBLE}]}}"])
def test_a_type_that_is_none_is_pointed_out_where_it_stands(check: Check, outputs: str) -> None:
    written = text(asking("ML_PREDICT(F, amount)"), outputs)
    found = only(check({MAIN: written, **FILE})[1])
    assert (found.code, found.origin) == ("unknown-column-type", spot(MAIN, written, "DUOBLE"))
    assert found.hint == "did you mean `DOUBLE`?"


def test_an_answer_that_nobody_asks_for_is_pointed_out(check: Check) -> None:
    written = text(asking("ML_PREDICT(F, amount)"), "{Ff: {score: DOUBLE}}")
    found = only(check({MAIN: written, **FILE})[1])
    assert (found.code, found.severity, found.origin) == ("no-effect", Severity.WARNING, spot(MAIN, written, "Ff"))
    assert found.hint == "did you mean `F`?"


# The manifest and the plan


def manifest(root: Path, content: bytes = b"one", answer: str = "DOUBLE", sql: str = "") -> Manifest:
    written = text(sql or asking("ML_PREDICT(F, amount)"), f"{{F: {{score: {answer}}}}}")
    write(root, {MAIN: written, "fraud.onnx": content})
    return compile_project(walk(root))


def test_the_manifest_has_the_path_and_what_the_file_holds_and_the_sql_a_function(tmp_path: Path) -> None:
    query = manifest(tmp_path).query("m")
    (asked,) = query.asks
    assert (asked.model, asked.path, asked.answer) == ("F", "fraud.onnx", "STRUCT<`score`: DOUBLE>")
    assert f"{asked.function}(`amount`) AS `p`" in query.steps[0].sql
    assert "ML_PREDICT" not in query.steps[0].sql
    assert str(tmp_path) not in query.model_dump_json()
    assert manifest(tmp_path, b"two").query("m").asks[0].content != asked.content


def test_another_file_is_a_restart_and_never_a_rebuild(tmp_path: Path) -> None:
    for sql in ("", "SELECT a.id, ML_PREDICT(F, a.amount) AS p FROM {{ source('s') }} a JOIN {{ source('s') }} b "
                    "ON a.id = b.id"):  # fmt: skip
        before = manifest(tmp_path, sql=sql)
        deployed = DeployedState(
            {"m": before.query("m")},
            frozenset({"m"}),
            frozenset({"m"}),
            {"m": Checkpoint(begun=True, unfinished=False)},
        )
        same, changed = diff(before, deployed), diff(manifest(tmp_path, b"two", sql=sql), deployed)
        assert [explain(step).action for step in same.steps] == ["resume"]
        assert [(explain(step).action, explain(step).sign) for step in changed.steps] == [("restart", "~")]


def test_two_answers_of_one_model_are_two_functions(tmp_path: Path) -> None:
    one, other = (manifest(tmp_path, answer=kind).query("m").asks[0] for kind in ("DOUBLE", "FLOAT"))
    assert one.function != other.function


def test_a_view_asks_inside_the_query_that_reads_it(tmp_path: Path) -> None:
    written = text(asking("ML_PREDICT(F, amount)")) + (
        "    materialized: virtual_topic\n  - name: n\n    sql: SELECT id, p.score AS score FROM {{ ref('m') }}\n"
    )
    write(tmp_path, {MAIN: written, **FILE})
    checked = walk(tmp_path)
    assert codes(checked.notes) == ["gateway-absent"]
    (query,) = compile_project(checked).queries
    assert (query.name, [asked.model for asked in query.asks]) == ("n", ["F"])
