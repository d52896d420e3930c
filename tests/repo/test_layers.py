"""What may be loaded when, and that codes and code agree."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import penstock
from penstock.cli.main import COMMANDS
from penstock.codes import CODES

SOURCE = Path(penstock.__file__).parent
WITH_SPARK = ("penstock.runtime", "penstock.spark_internals.errors", "penstock.testing")
KINDS = ("source", "model", "exposure", "transform", "sink")
RAISING = ("Diagnostic", "Problem", "ServiceError", "PlanRefused", "QueryFailed", "PenstockError", "_note")

WATCH = """
import atexit, json, sys

started = []
STARTING = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.fork", "os.forkpty")
sys.addaudithook(lambda event, values: started.append(str(values)) if event in STARTING else None)

def report():
    loaded = [name for name in ("pyspark", "py4j") if name in sys.modules]
    with open(sys.argv[1], "w") as file:
        json.dump({"loaded": loaded, "started": started}, file)
"""

RUN_COMMANDS = """
from penstock.cli.main import app

for arguments in json.loads(sys.argv[2]):
    try:
        app(arguments, prog_name="penstock")
    except SystemExit as ended:
        assert not ended.code, (arguments, ended.code)
report()
"""

IMPORT_ALL = """
from importlib import import_module

for name in json.loads(sys.argv[2]):
    import_module(name)
report()
"""


def modules() -> list[str]:
    found = walk_packages([str(SOURCE)], "penstock.")
    return sorted(module.name for module in found if not module.name.startswith(WITH_SPARK))


def watched(body: str, what: list[Any], tmp_path: Path, watch: str = WATCH) -> dict[str, list[str]]:
    report = tmp_path / "report.json"
    command = [sys.executable, "-c", watch + body, str(report), json.dumps(what)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return json.loads(report.read_text())  # type: ignore[no-any-return]


def test_importing_every_room_but_the_runtime_leaves_pyspark_unloaded(tmp_path: Path) -> None:
    names = modules()
    assert {"penstock.connectors.topic", "penstock.plan.diff", "penstock.cli.run"} <= set(names)
    assert watched(IMPORT_ALL, names, tmp_path) == {"loaded": [], "started": []}


def test_reading_a_checkpoint_needs_no_spark(tmp_path: Path) -> None:
    names = ["penstock.cli.state", "penstock.runtime.checkpoint.state_stats", "penstock.runtime.run.lock"]
    assert watched(IMPORT_ALL, names, tmp_path) == {"loaded": [], "started": []}


def test_what_runs_on_executors_imports_little(tmp_path: Path) -> None:
    """Every Python worker of Spark imports it anew."""
    names = ["penstock.runtime.query.stateful_executor", "penstock.keyed.kernels", "penstock.functions"]
    names.append("penstock.runtime.query.functions.calls")
    heavy = WATCH.replace('("pyspark", "py4j")', '("pydantic", "sqlglot", "pandas", "typer", "yaml")')
    assert watched(IMPORT_ALL, names, tmp_path, heavy)["loaded"] == []


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "stream_project.yml").write_text(
        "project: {name: small}\n"
        "sources: [{name: s, topic: t, columns: [{name: id, type: BIGINT}]}]\n"
        "models: [{name: m, sql: 'SELECT id FROM {{ source(\"s\") }}'}]\n"
    )
    (folder / "feed.yml").write_text(
        "sources: {s: {type: generator, columns: {id: {kind: sequence}}}}\nsinks: {o: {type: print, from: s}}\n"
    )
    return folder


def test_checking_and_planning_start_nothing_and_load_no_spark(small_project: Path, tmp_path: Path) -> None:
    paths = (str(small_project), str(small_project / "feed.yml"))
    commands = [[name, path] for name in ("validate", "compile", "lineage", "plan", "status") for path in paths]
    commands += [[*command, "--format", "json"] for command in commands]
    assert watched(RUN_COMMANDS, commands, tmp_path) == {"loaded": [], "started": []}
    assert (small_project / "generated" / "manifest.json").is_file()
    assert [p.name for p in (small_project / ".penstock").iterdir()] == ["cache"]


def test_help_starts_nothing_and_loads_no_spark(tmp_path: Path) -> None:
    commands = [["--help"], *([name, "--help"] for name in COMMANDS)]
    assert watched(RUN_COMMANDS, commands, tmp_path) == {"loaded": [], "started": []}


def trees() -> Iterator[ast.Module]:
    for path in SOURCE.rglob("*.py"):
        if path.name != "codes.py":
            yield ast.parse(path.read_text(encoding="utf-8"))


def texts(tree: ast.AST) -> Iterator[str]:
    """Every text in the code; one with gaps is filled with each kind of node."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text):
                yield text
            case ast.JoinedStr(values=parts):
                for kind in KINDS:
                    yield "".join(str(p.value) if isinstance(p, ast.Constant) else kind for p in parts)


def given_codes(tree: ast.AST) -> Iterator[object]:
    """What is given first to a diagnostic, a problem or an error, where it is a plain text."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=code), *_]):
                if name in RAISING:
                    yield code


def test_every_code_is_used() -> None:
    used = {text for tree in trees() for text in texts(tree)}
    assert CODES.keys() - used == set()


def test_every_code_that_is_used_is_known() -> None:
    given = {code for tree in trees() for code in given_codes(tree)}
    assert len(given) > 30
    assert given - CODES.keys() == set()
