"""Penstock from Python, as far as it needs no Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock import workflow
from penstock.errors import ProjectInvalid
from tests.support import write

PROJECT = {
    "stream_project.yml": """
    project: {name: shop}
    sources:
      - name: orders
        topic: orders.v1
        columns: [{name: id, type: BIGINT}, {name: at, type: TIMESTAMP(3)}]
    models:
      - name: clean
        sql: SELECT id FROM {{ source("orders") }} WHERE id > {{ var("least", 0) }}
    """
}


def test_a_project_is_loaded_validated_and_planned(tmp_path: Path) -> None:
    write(tmp_path, PROJECT)
    assert [d.code for d in workflow.validate(tmp_path) if d.severity.value == "error"] == []
    project = workflow.load(str(tmp_path), variables={"least": 7})
    plan = workflow.plan(project)
    assert not plan.refusals
    assert [query.name for query in plan.queries] == ["clean"]
    assert any("start query clean" in str(workflow.explain(step)) for step in plan.changes)
    assert "7" in plan.queries[0].steps[0].sql


def test_mistakes_are_returned_by_validate_and_raised_by_load(tmp_path: Path) -> None:
    broken = PROJECT["stream_project.yml"].replace("SELECT id", "SELECT idd")
    write(tmp_path, {"stream_project.yml": broken})
    found = workflow.validate(tmp_path)
    assert "idd" in " ".join(d.message for d in found)
    with pytest.raises(ProjectInvalid) as raised:
        workflow.load(tmp_path)
    assert {d.code for d in raised.value.diagnostics} >= {d.code for d in found}


def test_importing_it_imports_neither_spark_nor_the_connectors_clients() -> None:
    script = "import sys, penstock; light = len(sys.modules); import penstock.workflow; print(light, *sys.modules)"
    light, *modules = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(light) < 100
    assert not {"pyspark", "confluent_kafka", "psycopg", "pandas"} & set(modules)
