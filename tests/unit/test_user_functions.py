"""Functions in Python beside a project or a pipeline, as far as `validate` and `plan` look."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from penstock.errors import Diagnostic, Severity
from penstock.manifest.model import Manifest
from penstock.plan.deployed.state import Checkpoint, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.site.describe import describe
from penstock.site.pages import site_texts
from penstock.sql.types.columns import Column
from penstock.workflow.stages import check as walk
from penstock.workflow.stages import compile_project
from tests.support import check_text, codes, errors, only, spot, write
from tests.unit.conftest import MAIN, PIPELINE, Check

TEXT = "functions/text.py"
INITIALS = '''
"""Functions over names."""
import pyarrow as pa
import a_package_that_is_not_here
from penstock.functions import BIGINT, DECIMAL, STRING

raise RuntimeError("validate runs no module")

def _helper(x):
    return x

def initials(name: STRING, count: BIGINT) -> STRING:
    """The first letters.

    More about it.
    """
    return name

def vat(net: DECIMAL(10, 2)) -> DECIMAL(12, 4):
    return net
'''


def model(sql: str) -> str:
    return (
        "project: {name: p}\nsources:\n  - name: s\n    topic: s.v1\n    columns:\n"
        "      - {name: id, type: BIGINT}\n      - {name: name, type: STRING}\n"
        "      - {name: net, type: 'DECIMAL(10, 2)'}\n"
        f"      - {{name: rate, type: DOUBLE}}\nmodels:\n  - name: m\n    sql: |\n      {sql}\n"
    )


def calling(expression: str) -> str:
    return model(f"SELECT id, {expression} AS x FROM {{{{ source('s') }}}}")


PIPE = """
sources: {people: {type: generator, columns: {id: {kind: sequence}, name: {kind: choice, values: [a, b]}}}}
transforms: {named: {type: sql, sql: 'SELECT id, CALL AS x FROM people', primary_key: id}}
sinks: {out: {type: blackhole, from: named}}
"""


def declared(check: Check, text: str, **others: str) -> tuple[Diagnostic, ...]:
    files = {MAIN: calling("1"), TEXT: text, **{f"functions/{name}.py": other for name, other in others.items()}}
    return check(files)[1]


def test_a_function_has_the_types_of_its_hints_and_its_module_is_not_run(check: Check) -> None:
    graph, found = check({MAIN: calling("Initials(name, 1)"), TEXT: INITIALS})
    assert found == ()
    assert graph is not None
    assert graph["model.m"].columns == (Column("id", "BIGINT"), Column("x", "STRING"))
    (function,) = graph["model.m"].functions
    assert function.signature == "initials(name STRING, count BIGINT) -> STRING"
    assert (function.file, function.description) == (TEXT, "The first letters.")
    assert [origin.name for origin in graph["model.m"].column_origins["x"]] == ["name"]
    assert check({MAIN: calling("vat(net)"), TEXT: INITIALS})[0]["model.m"].columns[1].type == "DECIMAL(12, 4)"


def test_validate_loads_no_spark_for_functions(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: calling("initials(name, 1)"), TEXT: INITIALS})
    code = (
        "import sys; from pathlib import Path; from penstock.workflow.stages import check; import penstock.functions;"
        f"check(Path({str(tmp_path)!r})); print('pyspark' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False"


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        ("initials(name)", "sql-argument", "initials takes 2 arguments, and is given 1"),
        ("initials(id, 1)", "sql-argument", "`name` of initials is STRING, and is given BIGINT"),
        ("initials(name, rate)", "sql-argument", "`count` of initials is BIGINT, and is given DOUBLE"),
        ("initials(name, net)", "sql-argument", "`count` of initials is BIGINT, and is given DECIMAL(10, 2)"),
        ("vat(rate)", "sql-argument", "`net` of vat is DECIMAL(10, 2), and is given DOUBLE"),
        ("initals(name, 1)", "sql-unknown-function", "there is no function `initals`"),
        ("CAST(_helper(name) AS STRING)", "sql-unknown-function", "there is no function `_helper`"),
        ("initials(name, 1) OVER (ORDER BY id)", "sql-unsupported", "initials is no aggregate function: OVER, FILTER"),
        ("initials(DISTINCT name, 1)", "sql-argument", "initials takes values by position"),
        ("TRANSFORM(ARRAY[name], n -> initials(n, 1))", "sql-unsupported", "initials cannot be called in a lambda"),
    ],
)
def test_a_wrong_call_is_reported_where_it_is(check: Check, call: str, code: str, message: str) -> None:
    text = calling(call)
    found = only(check({MAIN: text, TEXT: INITIALS})[1])
    assert found.code == code
    assert found.message.startswith(message)
    assert found.origin is not None
    assert found.origin.file == MAIN
    if code == "sql-unknown-function" and "initals" in message:
        assert found.hint == "did you mean `initials`?"


@pytest.mark.parametrize("wanted", ["FLOAT", "SMALLINT", "DECIMAL(10, 1)", "str", "bool", "date", '"ARRAY<DOUBLE>"'])
def test_a_double_goes_to_a_double_only(check: Check, wanted: str) -> None:
    files = {MAIN: calling("f(rate)"), TEXT: f"def f(x: {wanted}) -> str: ..."}
    assert codes(check(files)[1]) == ["sql-argument"]
    assert check({**files, TEXT: "def f(x: float) -> str: ..."})[1] == ()


def test_a_function_may_stand_in_the_clauses_of_an_aggregate(check: Check) -> None:
    sql = "SELECT id, COUNT(*) FILTER (WHERE initials(name, 1) = 'a') AS n FROM {{ source('s') }} GROUP BY id"
    assert errors(check({MAIN: model(sql), TEXT: INITIALS})[1]) == []
    sql = "SELECT id, COUNT(*) OVER (PARTITION BY initials(name, 1) ORDER BY id) AS n FROM {{ source('s') }}"
    found = check({MAIN: model(sql), TEXT: INITIALS})[1]
    assert not any("initials" in d.message for d in found)


@pytest.mark.parametrize("call", ["initials(name, NULL)", "initials(initials(name, 1), id + 1)", "vat(1)", "vat(1.5)"])
def test_values_of_the_same_family_are_accepted(check: Check, call: str) -> None:
    assert check({MAIN: calling(call), TEXT: INITIALS})[1] == ()


def test_a_pipeline_calls_the_functions_beside_its_file(check: Check) -> None:
    graph, found = check({PIPELINE: PIPE.replace("CALL", "INITIALS(name, id)"), TEXT: INITIALS}, PIPELINE)
    assert errors(found) == []
    assert graph is not None
    assert [function.name for function in graph["transform.named"].functions] == ["initials"]
    wrong = errors(check({PIPELINE: PIPE.replace("CALL", "initals(name, id)"), TEXT: INITIALS}, PIPELINE)[1])
    assert [(d.code, d.hint) for d in wrong] == [("sql-unknown-function", "did you mean `initials`?")]
    wrong = errors(check({PIPELINE: PIPE.replace("CALL", "initials(id, id)"), TEXT: INITIALS}, PIPELINE)[1])
    assert codes(wrong) == ["sql-argument"]


GATEWAY = 'runtime: {kafka: {bootstrap_servers: "k:9092"}, conduktor: {gateway: {admin_url: "http://g:8888"}}}'


def test_neither_a_gateway_nor_real_time_mode_runs_a_function(check: Check) -> None:
    text = calling("initials(name, 1)").replace("sources:", f"{GATEWAY}\nsources:", 1)
    graph, found = check({MAIN: text, TEXT: INITIALS})
    assert found == ()
    assert graph is not None
    assert (graph["model.m"].materialized, "user function" in graph["model.m"].decided_by) == ("topic", True)
    virtual = text.replace("    sql:", "    materialized: virtual_topic\n    sql:")
    refused = only(check({MAIN: virtual, TEXT: INITIALS})[1])
    assert (refused.code, refused.message) == ("gateway-unsupported", "the gateway's SQL has no INITIALS(…)")
    realtime = text.replace("    sql:", "    advanced: {spark: {trigger: realtime}}\n    sql:")
    noted = only(check({MAIN: realtime, TEXT: INITIALS})[1])
    assert (noted.code, "it calls `initials`, which runs in Python" in noted.message) == ("realtime-unsupported", True)


# Declarations


@pytest.mark.parametrize(
    ("text", "code", "word", "message"),
    [
        ("def f(x: str) -> str\n    return x\n", "function-syntax", "\n", "this is not valid Python: expected ':'"),
        ("def f(x) -> str: ...", "function-signature", "x)", "argument `x` of `f`: it has no type"),
        ("def f(x: str): ...", "function-signature", "def", "the result of `f`: it has no type"),
        ("def f(x: strng) -> str: ...", "function-signature", "x:", "argument `x` of `f`: `strng` is not a SQL type"),
        ("def f(x: 'NUMBR') -> str: ...", "function-signature", "x:", "argument `x` of `f`: `NUMBR` is not a SQL type"),
        ("def f(x: pa.Array) -> str: ...", "function-signature", "x:", "does not say the SQL type"),
        ("def f(x: Decimal) -> str: ...", "function-signature", "x:", "`Decimal` has no precision"),
        ("def f(x: DECIMAL) -> str: ...", "function-signature", "x:", "`DECIMAL` has no precision"),
        ("def f(x: DECIMAL(50, 2)) -> str: ...", "function-signature", "x:", "`DECIMAL(50, 2)` is not a SQL type"),
        ("def f(x: str | None) -> str: ...", "function-signature", "x:", "`str | None` is not a SQL type"),
        ("def f(*x: str) -> str: ...", "function-signature", "x:", "takes `*x`"),
        ("def f(y: str, **x: str) -> str: ...", "function-signature", "x:", "takes `**x`"),
        ("def f(y: str, *, x: str) -> str: ...", "function-signature", "x:", "takes `x` by name only"),
        ("def f(y: str = 'a') -> str: ...", "function-signature", "'a'", "has a default value"),
        ("def f() -> str: ...", "function-signature", "def", "takes no argument"),
        ("async def f(x: str) -> str: ...", "function-signature", "async", "is async"),
        ("def upper(x: str) -> str: ...", "function-name", "def", "SQL has a function UPPER"),
        ("def order(x: str) -> str: ...", "function-name", "def", "ORDER has a meaning of its own in SQL"),
        ("def ml_predict(x: str) -> str: ...", "function-name", "def", "SQL has a function ML_PREDICT"),
        ("def penstock_now(x: str) -> str: ...", "function-name", "def", "reserved for Penstock"),
        ("def größe(x: str) -> str: ...", "function-name", "def", "letters a to z"),
        ("def f(x: str) -> str: ...\ndef F(x: str) -> str: ...", "duplicate-name", "def F", "is also at"),
        ("from .txt import g", "function-import", "from", "there is no module `.txt`"),
        ("from functions.text import g", "function-import", "from", "cannot be imported by this name"),
    ],
)
def test_a_mistake_in_a_file_has_its_place(check: Check, text: str, code: str, word: str, message: str) -> None:
    found = only(declared(check, text))
    assert (found.code, found.severity) == (code, Severity.ERROR)
    assert message in found.message
    if code == "function-syntax":
        assert (found.origin.file, found.origin.line) == (TEXT, 1)
    else:
        assert found.origin == spot(TEXT, text, word)
        assert found.hint


def test_a_name_in_another_file_is_the_same_name(check: Check) -> None:
    found = only(declared(check, "def twice(x: int) -> int: ...", zz="x = 1\ndef Twice(x: int) -> int: ..."))
    assert (found.code, found.origin.file, found.origin.line) == ("duplicate-name", "functions/zz.py", 2)
    assert f"{TEXT}:1:1" in found.message


def test_files_may_import_a_directory_and_a_file_in_it(check: Check) -> None:
    text = "from . import geo\nfrom .geo import area\nfrom .geo.area import _twice\n"
    assert declared(check, text, **{"geo/area": "def _twice(x): ..."}) == ()


@pytest.mark.parametrize("text", ["def initials(x: strng) -> str: ...", "def initials(x: str) -> str\n    return x"])
def test_the_call_of_a_function_with_a_mistake_is_not_a_second_mistake(check: Check, text: str) -> None:
    found = only(check({MAIN: calling("initials(name, 1)"), TEXT: text})[1])
    assert found.code.startswith("function-")


def test_hints_may_be_types_of_python_or_sql_in_quotes(check: Check) -> None:
    text = dedent("""
        import datetime
        from typing import Annotated
        import pyarrow as pa
        from penstock import functions as t
        def a(x: str, y: bool, z: float) -> datetime.date: ...
        def b(x: "ARRAY<STRING>", /) -> "MAP<STRING, BIGINT>": ...
        def c(x: Annotated[pa.Array, "DECIMAL(18, 4)"]) -> t.TIMESTAMP: ...
        def d(x: bytes) -> t.DECIMAL(5): ...
    """)
    files = {MAIN: calling("a(name, TRUE, rate)"), TEXT: text, "functions/test_text.py": "def test_a(): ..."}
    graph, found = check({**files, "functions/.hidden/x.py": "("})
    assert found == ()
    assert graph is not None
    assert [function.signature for function in graph.functions.values()] == [
        "a(x STRING, y BOOLEAN, z DOUBLE) -> DATE",
        "b(x ARRAY<STRING>) -> MAP<STRING, BIGINT>",
        "c(x DECIMAL(18, 4)) -> TIMESTAMP",
        "d(x BINARY) -> DECIMAL(5, 0)",
    ]


# Manifest, plan and site


def manifest_of(root: Path, text: str, sql: str = "initials(name, 1)", **others: str) -> Manifest:
    files = {MAIN: calling(sql), TEXT: text, **{f"functions/{name}.py": other for name, other in others.items()}}
    write(root, files)
    return compile_project(walk(root))


def test_the_manifest_has_a_digest_and_types_and_no_code(tmp_path: Path) -> None:
    manifest = manifest_of(tmp_path, INITIALS)
    (called,) = manifest.queries[0].functions
    assert (called.name, called.file, called.returns) == ("initials", TEXT, "STRING")
    assert called.parameters == (("name", "STRING"), ("count", "BIGINT"))
    shown = manifest.to_json()
    assert "a_package_that_is_not_here" not in shown
    assert str(tmp_path) not in shown
    assert "functions" not in manifest_of(tmp_path, INITIALS, "1").queries[0].to_document()


def steps(root: Path, *versions: dict[str, str]) -> list[tuple[str, str]]:
    before, after = (manifest_of(root, **version) for version in versions)
    begun = {"m": Checkpoint(begun=True, unfinished=False)}
    deployed = DeployedState({"m": before.query("m")}, frozenset({"m"}), frozenset({"m"}), begun)
    return [(explain(step).action, explain(step).reason) for step in diff(after, deployed).steps]


def test_another_source_is_a_restart_and_another_type_of_result_a_change_of_the_sql(tmp_path: Path) -> None:
    first = "from .base import g\ndef initials(a: str, n: int) -> str: return a\n"
    base = "def _g(): ...\n"
    files = {"text": first, "base": base}
    reason = "the source of the function `initials` changed; resumes where it stopped"
    restarted = [("restart", reason)]
    assert [action for action, _ in steps(tmp_path, files, {**files, "other": "x = 1"})] == ["resume"]
    assert steps(tmp_path, files, {**files, "text": f"{first}# x\n"}) == restarted
    assert steps(tmp_path, files, {**files, "base": f"{base}# x\n"}) == restarted
    (typed,) = steps(tmp_path, files, {**files, "text": first.replace("-> str", "-> bytes")})
    assert "its SQL changed" in typed[1]


def test_the_site_lists_functions_with_their_readers(tmp_path: Path) -> None:
    manifest = manifest_of(tmp_path, INITIALS)
    page = dict(site_texts(describe(walk(tmp_path).graph, manifest, (), None)))["index.html"]
    assert "initials(name STRING, count BIGINT) -&gt; STRING" in page
    assert "The first letters." in page
    assert "functions/text.py:11" in page
    assert check_text(tmp_path, {})[0] is not None
