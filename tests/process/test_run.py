"""Whole runs: start, stop, kill, start again."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.sample import write_minute
from tests.process.cli import PATIENCE, UNHURRIED, Inside, alive, background, children, penstock, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def quickstart(tmp_path: Path, inside: Inside) -> Path:
    made = inside("init", "shop", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    return tmp_path / "shop"


def ids(project: Path, topic: str) -> list[int]:
    """Order ids in a topic, read with pyarrow: no code of ours between the files and the count."""
    from pyarrow.parquet import read_table

    files = (project / ".penstock" / "topics" / topic).glob("*-*/part-*.parquet")
    return sorted(i for file in files for i in read_table(file, columns=["order_id"])["order_id"].to_pylist())


def paid_ids(project: Path) -> list[int]:
    """What must come out, from the input files alone."""
    files = (project / ".penstock" / "topics" / "orders.raw.v1").glob("*.jsonl")
    orders = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return sorted(o["order_id"] for o in orders if o["status"] == "paid" and o["amount"] > 0)


def test_a_new_project_runs_shows_and_has_nothing_left_to_do(quickstart: Path, inside: Inside) -> None:
    first = inside("run", "--once", "--format", "json", cwd=quickstart)
    assert first.returncode == 0, first.stderr
    queries = {q["query"]: q for q in json.loads(first.stdout)["queries"]}
    assert list(queries) == ["orders_clean", "large_orders", "revenue_by_minute"]
    assert queries["orders_clean"]["rows_in"] == 10_000
    assert {"batches", "rows_in", "rows_out", "seconds"} <= queries["orders_clean"].keys()
    assert ids(quickstart, "orders.clean.v1") == paid_ids(quickstart)

    shown = inside("show", "revenue_by_minute", "--limit", "3", "--format", "json", cwd=quickstart)
    rows = json.loads(shown.stdout)
    assert len(rows) == 3
    assert set(rows[0]) == {"country", "minute", "orders", "revenue"}

    status = json.loads(inside("status", "--format", "json", cwd=quickstart).stdout)
    assert status["running"] is False
    assert {q["state"] for q in status["queries"]} == {"finished"}
    plan = json.loads(inside("plan", "--format", "json", cwd=quickstart).stdout)
    assert plan["changes"] == 0


KILL = """
import os, signal, sys
from penstock.cli.main import main
from penstock.clients.files import batch_directory

moment = sys.argv.pop(1)
replace = os.replace

def killing(source, target):
    if "topics" not in str(target):
        return replace(source, target)
    if moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    os.kill(os.getpid(), signal.SIGKILL)

batch_directory.os.replace = killing
main()
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_around_the_write_leaves_no_duplicates_and_no_gap(
    quickstart: Path, moment: str, tmp_path: Path, inside: Inside
) -> None:
    """`before` the second batch is renamed into place, and `after` that but before Spark commits it."""
    select = ("--select", "orders_clean")
    assert inside("run", "--once", *select, cwd=quickstart).returncode == 0
    first = ids(quickstart, "orders.clean.v1")
    write_minute(quickstart, 99, 500)
    script = tmp_path / "kill.py"
    script.write_text(KILL)
    command = [sys.executable, str(script), moment, "run", "--once", *select]
    killed = subprocess.run(command, cwd=quickstart, capture_output=True, text=True, timeout=PATIENCE)
    assert killed.returncode == -signal.SIGKILL
    checkpoint = quickstart / ".penstock" / "project.shop" / "default" / "checkpoints" / "orders_clean"
    assert (checkpoint / "offsets" / "1").exists()
    assert not (checkpoint / "commits" / "1").exists()
    assert ids(quickstart, "orders.clean.v1") == (first if moment == "before" else paid_ids(quickstart))

    again = inside("run", "--once", *select, cwd=quickstart)
    assert again.returncode == 0, again.stderr
    assert (checkpoint / "commits" / "1").exists()
    assert ids(quickstart, "orders.clean.v1") == paid_ids(quickstart)
    assert len(paid_ids(quickstart)) > len(first)


def test_a_run_goes_on_until_it_is_stopped_and_keeps_others_out(quickstart: Path, inside: Inside) -> None:
    with background("run", cwd=quickstart, env=UNHURRIED) as runner:
        wait_until(lambda: len(ids(quickstart, "orders.clean.v1")) > 0, "the first rows")
        second = inside("run", "--once", cwd=quickstart)
        assert second.returncode == 3
        assert "already-running" in second.stderr
        assert re.search(rf"\b{runner.pid}\b", second.stderr)
        status = json.loads(inside("status", "--format", "json", cwd=quickstart).stdout)
        assert (status["running"], status["pid"]) == (True, runner.pid)

        late = {"order_id": 999_999, "customer_id": 1, "country": "de", "status": "paid", "amount": 5.0}
        topic = quickstart / ".penstock" / "topics" / "orders.raw.v1"
        (topic / "_late").write_text(json.dumps({**late, "ordered_at": "2026-01-01T10:00:00Z"}) + "\n")
        (topic / "_late").rename(topic / "late.jsonl")
        wait_until(lambda: 999_999 in ids(quickstart, "orders.clean.v1"), "a row that came while it ran")

        def state() -> dict[str, Any]:
            told = inside("state", "revenue_by_minute", "--format", "json", cwd=quickstart)
            return json.loads(told.stdout) if told.returncode == 0 else {"operators": [{"rows": None}]}

        wait_until(lambda: state()["operators"][0]["rows"] is not None, "what is kept while it runs")
        assert (state()["running"], state()["operators"][0]["name"]) == (True, "stateStoreSave")

        stopped = inside("stop", cwd=quickstart, env=UNHURRIED)
        assert stopped.returncode == 0, stopped.stderr
        assert runner.wait(timeout=PATIENCE) == 0
    assert inside("stop", cwd=quickstart).returncode == 0
    assert ids(quickstart, "orders.clean.v1") == paid_ids(quickstart)


def test_a_killed_runner_takes_its_jvm_with_it_and_frees_the_lock(quickstart: Path, inside: Inside) -> None:
    with background("run", cwd=quickstart) as runner:
        wait_until(lambda: bool(children(runner.pid)), "a JVM")
        wait_until(lambda: len(ids(quickstart, "orders.clean.v1")) > 0, "the first rows")
        jvms = children(runner.pid)
        runner.send_signal(signal.SIGKILL)
        runner.wait(timeout=PATIENCE)
        wait_until(lambda: not any(alive(pid) for pid in jvms), "the end of the JVM")
    status = json.loads(inside("status", "--format", "json", cwd=quickstart).stdout)
    assert status["running"] is False
    assert "running" not in {q["state"] for q in status["queries"]}


def test_a_jvm_that_outlives_its_runner_keeps_the_next_one_waiting(quickstart: Path, inside: Inside) -> None:
    with background("run", cwd=quickstart) as runner:
        wait_until(lambda: len(ids(quickstart, "orders.clean.v1")) > 0, "the first rows")
        (jvm,) = children(runner.pid)
        os.kill(jvm, signal.SIGSTOP)
        runner.send_signal(signal.SIGKILL)
        runner.wait(timeout=PATIENCE)
        try:
            status = json.loads(inside("status", "--format", "json", cwd=quickstart).stdout)
            assert (status["running"], status["spark_pid"]) == (False, jvm)
            with background("run", "--once", cwd=quickstart) as second:
                assert second.stdout is not None
                waits = f"Waiting for Spark process {jvm} of a run that was killed (process {runner.pid}) to end."
                assert any(waits in line for line in second.stdout)
                assert not children(second.pid)
                os.kill(jvm, signal.SIGCONT)
                assert second.wait(timeout=PATIENCE) == 0
        finally:
            os.kill(jvm, signal.SIGKILL) if alive(jvm) else None
    assert ids(quickstart, "orders.clean.v1") == paid_ids(quickstart)


def test_an_interrupt_while_spark_starts_leaves_no_jvm(quickstart: Path) -> None:
    with background("run", cwd=quickstart) as runner:
        wait_until(lambda: bool(children(runner.pid)), "a JVM")
        jvms = children(runner.pid)
        runner.send_signal(signal.SIGINT)
        assert runner.wait(timeout=PATIENCE) != 0
        wait_until(lambda: not any(alive(pid) for pid in jvms), "the end of the JVM")


def test_a_killed_jvm_is_an_error_of_one_sentence(quickstart: Path) -> None:
    with background("run", cwd=quickstart) as runner:
        wait_until(lambda: len(ids(quickstart, "orders.clean.v1")) > 0, "the first rows")
        for pid in children(runner.pid):
            os.kill(pid, signal.SIGKILL)
        said, _ = runner.communicate(timeout=PATIENCE)
    assert runner.returncode == 4
    assert "spark-lost" in said
    assert "Traceback" not in said


def test_a_pipeline_is_found_by_its_environment_variable_and_prints_rows_only(tmp_path: Path) -> None:
    (tmp_path / "numbers.yml").write_text(
        textwrap.dedent(
            """
            sources:
              numbers: {type: generator, rows: 3, columns: {n: {kind: sequence}}}
            transforms: {}
            sinks:
              out: {type: print, from: numbers}
            """
        )
    )
    for prefix in ("PENSTOCK", "STREAMLING"):
        checked = penstock("validate", cwd=tmp_path, env={f"{prefix}__PIPELINE_DEFINITION_LOCATION": "numbers.yml"})
        assert checked.returncode == 0, checked.stderr
    located = {"PENSTOCK__PIPELINE_DEFINITION_LOCATION": "numbers.yml", "PATH": "/usr/bin:/bin"}
    done = penstock("run", cwd=tmp_path, env=located)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f'INSERT {{"n":{n}}}' for n in range(3)]
    assert "WARN" not in done.stderr
    assert re.search(r"^\S+Z INFO  Epoch finalized: 1$", done.stderr, re.MULTILINE)


def test_a_job_ends_by_itself_and_every_application_id_has_a_memory_of_its_own(tmp_path: Path, inside: Inside) -> None:
    (tmp_path / "numbers.yml").write_text(
        "sources: {numbers: {type: generator, rows: 4, columns: {n: {kind: sequence}}}}\n"
        "sinks: {out: {type: print, from: numbers}}\n"
    )
    (tmp_path / "job.yaml").write_text("job_mode: true\nprint_sink: {sample_every: 2}\n")
    shown = []
    for application in ("first", "first", "second"):
        env = {"STREAMLING__APPLICATION_ID": application, "PATH": "/usr/bin:/bin"}
        done = inside("run", "numbers.yml", "--config", "job", cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        shown.append(done.stdout.splitlines())
    rows = ['INSERT {"n":0}', 'INSERT {"n":2}']
    assert shown == [rows, [], rows]


def test_without_java_there_is_an_answer_and_no_traceback(quickstart: Path, tmp_path: Path) -> None:
    nothing = {"PATH": "/nowhere", "JAVA_HOME": "", "HOME": str(tmp_path)}
    done = penstock("run", "--once", cwd=quickstart, env=nothing)
    assert done.returncode == 4
    assert "java-missing" in done.stderr
    assert "apt-get install" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (quickstart / ".penstock" / "state.db").exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, inside: Inside) -> None:
    inside("init", "shop", cwd=tmp_path)
    home = tmp_path / "shop" / ".penstock"
    home.rename(tmp_path / "elsewhere")
    home.write_text("a file where a directory must be")
    done = inside("run", "--once", cwd=tmp_path / "shop")
    assert done.returncode == 4
    assert "not-writable" in done.stderr
    assert "Traceback" not in done.stderr
