"""The scripts at the end of spec 003, as people would paste them, run against the case `doc_003_lineage`.

They stand in `doc_003_scripts` as documented, but for the name of the command.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = HERE / "doc_003_scripts"
BIN = Path(sys.executable).parent

EDGES = [
    "source.orders_raw → model.orders_clean",
    "source.customers → model.orders_clean",
    "model.orders_clean → model.order_metrics",
    "model.orders_clean → model.orders_snowflake",
    "model.order_metrics → exposure.ops_dashboard",
    "model.orders_clean → exposure.billing_service",
]

needs_jq = pytest.mark.skipif(shutil.which("jq") is None, reason="the scripts pipe into jq, which is not installed")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the scripts are for bash, which is not installed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy = tmp_path / "shop"
    shutil.copytree(HERE / "cases" / "doc_003_lineage", copy, ignore=shutil.ignore_patterns("expected"))
    return copy


@needs_bash
@needs_jq
def test_the_impact_check_stops_a_change_that_reaches_a_critical_exposure(project: Path) -> None:
    check = bash("impact_check.sh", project, CHANGED_MODEL="orders_clean")
    assert check.stderr == ""
    assert check.stdout == "⚠️ Critical systems affected - require approval\n"
    assert check.returncode == 1


@needs_bash
@needs_jq
@pytest.mark.parametrize("changed", ["order_metrics", "orders_snowflake"])
def test_the_impact_check_lets_other_changes_pass(project: Path, changed: str) -> None:
    check = bash("impact_check.sh", project, CHANGED_MODEL=changed)
    assert check.stderr == ""  # the script would not notice if a command before the pipe failed
    assert check.stdout == ""
    assert check.returncode == 0


@needs_bash
@needs_jq
def test_each_team_that_a_change_reaches_is_notified_once(project: Path) -> None:
    notified = bash("notify_teams.sh", project)
    assert notified.stderr == ""
    assert notified.returncode == 0
    text = "Changes to orders_clean may affect your systems"
    teams = ["billing-team", "data-team", "ops-team", "warehouse-team"]
    assert notified.stdout.splitlines() == [f"#{team} {text}" for team in teams]


def test_the_edges_are_read_from_the_manifest(project: Path) -> None:
    compile_project(project)
    edges = run([sys.executable, str(SCRIPTS / "edges.py")], project)
    assert edges.stderr == ""
    assert edges.returncode == 0
    assert sorted(edges.stdout.splitlines()) == sorted(EDGES)


def test_what_is_downstream_of_a_model_is_read_from_the_manifest(project: Path) -> None:
    compile_project(project)
    asked = f"import runpy; print(runpy.run_path({str(SCRIPTS / 'edges.py')!r})['get_downstream']('orders_clean'))"
    last = run([sys.executable, "-c", asked], project).stdout.splitlines()[-1]
    assert last == "['model.order_metrics', 'model.orders_snowflake', 'exposure.billing_service']"


def compile_project(project: Path) -> None:
    compiled = run(["penstock", "compile"], project)
    assert compiled.returncode == 0, compiled.stderr
    assert (project / "generated" / "manifest.json").is_file()


def bash(script: str, project: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """The script, started by a shell that exports `notify_slack`: it shows what it is called with."""
    caller = 'notify_slack() { echo "$@"; }; export -f notify_slack; bash "$0"'
    return run(["bash", "-c", caller, str(SCRIPTS / script)], project, **variables)


def run(command: list[str], cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "1", **variables}
    env["PATH"] = os.pathsep.join([str(BIN), env.get("PATH", os.defpath)])
    executable = shutil.which(command[0], path=env["PATH"]) or command[0]
    return subprocess.run(
        [executable, *command[1:]],
        cwd=cwd,
        env=env,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
