"""What people see of a run whose database is down for a while, does not answer, or does not let it in."""

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.dev import clickhouse as dev_clickhouse
from penstock.dev import postgres as dev_postgres
from penstock.dev import processes
from penstock.runtime.delivery.sink_progress import NOTE
from tests.process.cli import PATIENCE, UNHURRIED, Inside, alive, background, everybody, wait_until
from tests.services.clickhouse import client
from tests.services.postgres import Database
from tests.services.test_postgres_faults import signalled

pytestmark = pytest.mark.process

PIPELINE = """
sources:
  numbers: {{type: file, path: in, format: json, mode: {{type: continuous, poll_interval: 200ms}}, primary_key: id}}
transforms: {{}}
sinks:
{before}  kept: {{type: {type}, from: numbers, table: numbers, primary_key: id}}
"""


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    found = tmp_path_factory.mktemp("mortal")
    try:
        yield found
    finally:
        processes.stop(found)


def written(folder: Path, sink: str, before: str = "") -> Path:
    (folder / "p.yml").write_text(PIPELINE.format(type=sink, before=before))
    drop(folder, 0)
    return folder


def drop(project: Path, number: int) -> None:
    """A file of a hundred rows, each with an id of its own, put in place at once."""
    folder = project / "in"
    folder.mkdir(exist_ok=True)
    whole = folder / f".{number}.json"
    whole.write_text("".join(f'{{"id": {number * 100 + n}}}\n' for n in range(100)))
    whole.rename(folder / f"{number}.json")


def of_postgres(port: int, password: str = dev_postgres.PASSWORD) -> dict[str, str]:
    said = {"PORT": str(port), "USER": dev_postgres.USER, "PASS": password, "DB": dev_postgres.DATABASE}
    return {f"PENSTOCK__POSTGRES_SINK__{name}": value for name, value in said.items()}


def query(project: Path, env: dict[str, str], inside: Inside) -> dict[str, Any]:
    """What `status` says of the only query; it says nothing before the run has begun."""
    told = json.loads(inside("status", "p.yml", "--format", "json", cwd=project, env=env).stdout)
    return dict(told["queries"][0]) if told["queries"] else {"state": "waiting", "batches": 0}


def is_tried_again(project: Path, env: dict[str, str], word: str, inside: Inside) -> bool:
    found = query(project, env, inside)
    if found["state"] != "retrying":
        return False
    error = found["error"]
    assert set(error) == {"node", "code", "message", "hint", "internal", "retriable"}
    assert (error["node"], error["internal"], error["retriable"]) == ("kept", False, True)
    assert "was not written to sink `kept`" in error["message"]
    assert word in error["message"]
    retry = found["retry"]
    return bool(retry["attempt"] >= 2 and retry["next_at"] >= retry["since"])


def ids(server: Database) -> list[int]:
    return sorted(int(row[0]) for row in server.rows("SELECT id FROM numbers")) if server.has("numbers") else []


def test_postgres_that_is_down_for_a_while_is_tried_again_and_one_that_hangs_is_not_waited_for(
    tmp_path: Path, home: Path, inside: Inside
) -> None:
    """And what another sink has got of a batch meanwhile, it does not get again."""
    project = written(tmp_path, "postgres", "  shown: {type: print, from: numbers}\n")
    port = int(dev_postgres.up(home).about["port"])
    server, env = Database(port), {**of_postgres(port), "PENSTOCK__SHUTDOWN_BUDGET_SECS": "1"}
    with background("run", "p.yml", cwd=project, env=env) as runner:
        wait_until(lambda: query(project, env, inside)["batches"] == 1, "the first rows")
        processes.stop(home)
        drop(project, 1)
        wait_until(lambda: is_tried_again(project, env, "PostgreSQL at", inside), "a second attempt")
        told = inside("status", "p.yml", cwd=project, env=env).stdout
        assert re.search(r"retry \d+, since 20", told)
        dev_postgres.up(home, port)
        wait_until(lambda: ids(server) == [*range(200)], "what came meanwhile")
        wait_until(lambda: query(project, env, inside)["retry"] is None, "a batch that is done")
        assert query(project, env, inside)["state"] == "running"

        signalled(home, signal.SIGSTOP)
        workers = everybody(runner.pid)
        drop(project, 2)
        (checkpoint,) = (project / ".penstock" / "pipeline.p" / "default" / "checkpoints").iterdir()

        def under_way() -> bool:
            begun, done = ({f.name for f in (checkpoint / log).glob("[0-9]*")} for log in ("offsets", "commits"))
            return begun - done == {str(json.loads((checkpoint / NOTE).read_text())["batch_id"])}

        wait_until(under_way, "a batch that one sink has")
        time.sleep(3)  # by now it waits for the server
        runner.send_signal(signal.SIGTERM)
        said, _ = runner.communicate(timeout=PATIENCE)
        wait_until(lambda: not any(map(alive, workers)), "the end of everybody")
        signalled(home, signal.SIGCONT)
    assert runner.returncode == 4
    assert "not-drained" in said
    assert "Traceback" not in said
    again = inside("run", "p.yml", "--once", cwd=project, env=env)
    assert again.returncode == 0, again.stderr
    assert ids(server) == [*range(300)]
    shown = [line for line in (said + again.stdout).splitlines() if line.startswith("INSERT ")]
    assert sorted(json.loads(line.removeprefix("INSERT "))["id"] for line in shown) == [*range(300)]


def test_a_password_that_is_wrong_ends_the_run_with_the_sink_named(tmp_path: Path, home: Path, inside: Inside) -> None:
    project = written(tmp_path, "postgres")
    env = of_postgres(int(dev_postgres.up(home).about["port"]), "no such password")
    ended = inside("run", "p.yml", cwd=project, env=env)
    assert ended.returncode == 4
    first, caused, batch, last, *_ = ended.stderr[ended.stderr.index(" ERROR query") :].splitlines()
    assert (first, caused) == (" ERROR query `numbers` stopped", "    Caused by:")
    assert batch == "        batch 0 was not written to sink `kept`"
    assert last.startswith("        database-refused  PostgreSQL at 127.0.0.1:")
    assert "password authentication failed" in last
    assert "no such password" not in ended.stderr
    found = query(project, env, inside)
    assert (found["state"], found["retry"]) == ("failed", None)
    told = {name: found["error"][name] for name in ("node", "code", "internal", "retriable")}
    assert told == {"node": "kept", "code": "database-refused", "internal": False, "retriable": False}


def test_clickhouse_that_is_down_for_a_while_is_tried_again(tmp_path: Path, home: Path, inside: Inside) -> None:
    project = written(tmp_path, "clickhouse")
    url = str(dev_clickhouse.up(home).about["url"])
    env = {"PENSTOCK__CLICKHOUSE_SINK__URL": url, **UNHURRIED}

    def stored() -> list[int]:
        asked = client(url).query("SELECT id FROM numbers FINAL ORDER BY id")
        return [int(row[0]) for row in asked.result_rows]

    with background("run", "p.yml", cwd=project, env=env) as runner:
        wait_until(lambda: query(project, env, inside)["batches"] == 1, "the first rows")
        assert stored() == [*range(100)]
        processes.stop(home)
        drop(project, 1)
        wait_until(lambda: is_tried_again(project, env, "ClickHouse at", inside), "a second attempt")
        dev_clickhouse.up(home, int(url.rpartition(":")[2]))
        wait_until(lambda: stored() == [*range(200)], "what came meanwhile")
        runner.send_signal(signal.SIGTERM)
        runner.communicate(timeout=PATIENCE)
    assert runner.returncode == 0
