"""What `penstock clean` finds, and what it leaves alone."""

import json
from pathlib import Path

from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.plan.deployed.state import read_deployed_state, read_retired_queries, record_query, retire_query
from penstock.workflow.stages import check, compile_project
from tests.support import write

PROJECT = """
    project: {name: p}
    sources: [{name: s, topic: s.v1, columns: [{name: id, type: BIGINT}]}]
    models:
      - {name: m, sql: "SELECT id FROM {{ source('s') }}"}
    """
GONE = """      - {name: n, sql: "SELECT id FROM {{ source('s') }}"}
    """


def clean(root: Path, *options: str) -> list[tuple[str, str]]:
    told = CliRunner().invoke(app, ["clean", str(root), "--format", "json", *options])
    assert told.exit_code == 0, told.output
    return [(found["kind"], found["name"]) for found in json.loads(told.stdout)["leftovers"]]


def test_only_what_this_project_made_and_uses_no_more_is_removed(tmp_path: Path) -> None:
    write(tmp_path, {"stream_project.yml": PROJECT.rstrip() + "\n" + GONE})
    checked = check(tmp_path)
    manifest, place, store = compile_project(checked), checked.place, checked.store
    for query in manifest.queries:
        record_query(store, place, manifest.revision, query)
        write(place.checkpoint(query.name), {"metadata": json.dumps({"id": query.name})})
        write(place.topics / query.name / "b-0", {"_batch.json": json.dumps({"checkpoint_id": query.name})})
    write(place.checkpoint("m").with_name("m@old"), {"metadata": json.dumps({"id": "older"})})
    write(place.topics / "others" / "b-0", {"_batch.json": json.dumps({"checkpoint_id": "of a pipeline"})})
    write(place.topics / "mine", {"a.json": "{}"})
    for node in ("m", "s"):
        write(place.topics / f"{node}.errors" / "b-0", {"_batch.json": json.dumps({"checkpoint_id": "m"})})
    assert clean(tmp_path) == [("checkpoint", "m@old")]

    write(tmp_path, {"stream_project.yml": PROJECT})
    retire_query(store, place, "n")
    assert "n" in read_retired_queries(store, place)
    listed = [("checkpoint", "m@old"), ("checkpoint", "n"), ("topic", "n")]
    assert clean(tmp_path) == listed
    assert place.checkpoint("n").is_dir()
    assert clean(tmp_path, "--remove") == listed
    assert clean(tmp_path) == []
    assert not read_retired_queries(store, place)
    assert sorted(path.name for path in place.topics.iterdir()) == ["m", "m.errors", "mine", "others", "s.errors"]
    assert list(read_deployed_state(store, place).checkpoints) == ["m"]


def test_an_environment_that_forbids_it_is_asked_first(tmp_path: Path) -> None:
    safe = "environment: {protected: true}\nruntime: {}\nsafety: {allow_destructive: false}\n"
    write(tmp_path, {"stream_project.yml": PROJECT, "environments/prod.yml": safe})
    told = CliRunner().invoke(app, ["clean", str(tmp_path), "--remove"])
    assert told.exit_code != 0
    assert clean(tmp_path, "--remove", "--force") == []
