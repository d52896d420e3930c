"""Codes that `validate` does not give, and that no test of a command gives on its way: see tests/repo/test_codes.py."""

import io
import socket
import sys
from pathlib import Path

import pytest

from penstock.cli.doctor import _reach
from penstock.cli.run import guard
from penstock.clients.extras import require
from penstock.clients.jvm.java import find_java
from penstock.errors import PlanRefused, ProjectInvalid, ServiceError
from penstock.plan.deployed.state import NOTHING
from penstock.plan.diff import diff
from penstock.plan.steps import Plan, RetireQuery
from penstock.project.project import Environment
from penstock.workflow.stages import check, compile_project, find_node, plan_project
from tests.process.cli import penstock
from tests.support import write
from tests.unit.conftest import MAIN, Compile

PROJECT = """
project: {name: p}
sources: [{name: s, topic: s.v1, columns: [{name: id, type: BIGINT}]}]
models: [{name: orders, sql: 'SELECT id FROM {{ source("s") }}'}]
"""
PROTECTED = Environment("prod", "", asks_first=True, allow_destructive=True)
FROZEN = Environment("prod", "", asks_first=False, allow_destructive=False)


@pytest.fixture
def plan(project_manifest: Compile) -> Plan:
    """A plan that starts a query."""
    return diff(project_manifest(PROJECT), NOTHING)


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that fails, and is the only one there is; its version stands in the file `release`."""
    home = tmp_path / "java"
    write(home, {"bin/java": "#!/bin/sh\necho 'java is broken' >&2\nexit 1\n"})
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda _: None)
    return home


# Names


def test_a_node_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: PROJECT})
    checked = check(tmp_path)
    with pytest.raises(ProjectInvalid) as caught:
        find_node(checked.graph, "order")
    assert (caught.value.code, caught.value.hint) == ("unknown-node", "did you mean `orders`?")
    with pytest.raises(PlanRefused) as refused:
        plan_project(checked, compile_project(checked), select=["order"])
    assert (refused.value.code, refused.value.hint) == ("unknown-node", "did you mean `orders`?")


# Protected environments


@pytest.mark.parametrize(("is_terminal", "answer"), [(False, ""), (True, "dev\n")], ids=["nobody there", "other name"])
def test_a_protected_environment_is_not_changed_without_its_name(
    plan: Plan, is_terminal: bool, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.StringIO(answer)
    monkeypatch.setattr(stdin, "isatty", lambda: is_terminal)
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(PlanRefused) as caught:
        guard(PROTECTED, plan, confirmed=False, forced=False)
    assert caught.value.code == "confirmation-needed"


def test_a_protected_environment_is_changed_by_its_name_or_with_confirm(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard(PROTECTED, plan, confirmed=True, forced=False)
    stdin = io.StringIO("prod\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", stdin)
    guard(PROTECTED, plan, confirmed=False, forced=False)


def test_queries_are_retired_only_by_force_where_that_is_forbidden(plan: Plan) -> None:
    retiring = Plan(plan.manifest, (*plan.steps, RetireQuery("gone")))
    with pytest.raises(PlanRefused) as caught:
        guard(FROZEN, retiring, confirmed=False, forced=False)
    assert caught.value.code == "destructive-refused"
    assert "gone" in caught.value.message
    guard(FROZEN, retiring, confirmed=False, forced=True)
    guard(FROZEN, plan, confirmed=False, forced=False)


# Services


def test_a_java_that_is_too_old_is_said_to_be(java_home: Path) -> None:
    (java_home / "release").write_text('JAVA_VERSION="1.8.0_392"\n')
    with pytest.raises(ServiceError) as caught:
        find_java()
    assert caught.value.code == "java-too-old"
    assert f"Java 8 in {java_home}" in caught.value.message


@pytest.mark.process
def test_a_spark_that_does_not_start_says_why_and_where_its_log_is(java_home: Path, tmp_path: Path) -> None:
    (java_home / "release").write_text('JAVA_VERSION="17.0.9"\n')
    write(tmp_path, {MAIN: PROJECT})
    done = penstock("run", "--once", cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "spark-start" in done.stderr
    (log,) = (tmp_path / ".penstock").rglob("*.log")
    assert str(log) in done.stderr
    assert "java is broken" in log.read_text()


def test_a_package_that_is_missing_is_named_with_the_way_to_install_it() -> None:
    with pytest.raises(ServiceError) as caught:
        require("json", "no_such_package", extra="kafka")
    assert (caught.value.code, caught.value.hint) == ("package-missing", 'pip install "penstock[kafka]"')
    assert "no_such_package, which is not" in caught.value.message


def test_a_system_that_does_not_answer_may_be_asked_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens here, and nobody else can
        with pytest.raises(ServiceError) as caught:
            _reach(f"127.0.0.1:{free.getsockname()[1]}")
    assert caught.value.code == "unreachable"
    assert caught.value.retriable
