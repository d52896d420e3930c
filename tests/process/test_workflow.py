"""Penstock from Python: a script that has a Spark session of its own, as a notebook has."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.cli import PATIENCE, penstock

pytestmark = pytest.mark.process
SCRIPT = """
import json, sys, threading
from penstock import workflow
from penstock.errors import PlanRefused

project = workflow.load(sys.argv[1])
first = workflow.run_once(project)
rows = workflow.show(project, "orders_clean", limit=5)
stop, states, second = threading.Event(), set(), []

def watch(queries):
    states.update(query.state for query in queries)
    if all(query.state == "running" for query in queries) and not stop.is_set():
        try:
            workflow.run_once(project)
        except PlanRefused as error:
            second.append(error.code)
        stop.set()

again = workflow.run_until_stopped(project, stop, on_progress=watch)
print(json.dumps([first.rows_out, again.rows_out, len(rows), sorted(rows[0]), second, sorted(states)]))
"""


def test_a_script_runs_a_project_shows_rows_and_stops_when_it_is_told_to(tmp_path: Path) -> None:
    penstock("init", "shop", cwd=tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "shop")], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, again, shown, columns, second, states = json.loads(done.stdout)
    assert first > 0
    assert again == 0
    assert shown == 5
    assert "order_id" in columns
    assert second == ["already-running"]
    assert "running" in states
