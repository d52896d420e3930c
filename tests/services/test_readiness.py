"""`plan` and `doctor` ask what a run will ask: subjects of a registry, and tables that rows must fit."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.dev import postgres as dev
from penstock.errors import ProjectInvalid, ServiceError
from tests.services.kafka import Broker, new_topic
from tests.services.postgres import Database
from tests.services.registry import register
from tests.support import write


def asked(command: str, root: Path) -> tuple[int, dict[str, Any]]:
    told = CliRunner().invoke(app, [command, str(root), "--format", "json"])
    assert told.stdout, told.exception
    return told.exit_code, json.loads(told.stdout)


def failing(root: Path) -> dict[str, str]:
    """What keeps a run from working, by `plan` and by `doctor`, who must agree."""
    code, plan = asked("plan", root)
    healthy, report = asked("doctor", root)
    found = {check["check"]: check["detail"] for check in plan["failing_checks"]}
    named = {check["check"]: check["detail"] for check in report["checks"] if not check["ok"]}
    assert {name: detail for name, detail in named.items() if name.split()[0] in ("source", "sink")} == found
    assert code == (ServiceError.exit_code if found else 0)
    assert healthy == (ServiceError.exit_code if named else 0)
    return found


def refused(root: Path) -> tuple[str, str]:
    """Why `plan` cannot even read the project's schemas, which `doctor` finds as well."""
    plan = CliRunner().invoke(app, ["plan", str(root)])
    healthy, report = asked("doctor", root)
    assert isinstance(plan.exception, ProjectInvalid | ServiceError)
    assert healthy == ServiceError.exit_code
    (detail,) = (check["detail"] for check in report["checks"] if check["check"] == "source s" and not check["ok"])
    return str(plan.exception), str(detail)


def test_a_source_needs_a_subject_and_a_registry_that_answers(tmp_path: Path, broker: Broker, registry: str) -> None:
    topic = new_topic()
    KafkaAdmin(broker.plain).create(topic, 1, 1, {})
    project = f"""
        project: {{name: p}}
        runtime:
          kafka: {{bootstrap_servers: "{broker.plain.servers}"}}
          schema_registry: {{url: "REGISTRY"}}
        sources:
          - {{name: s, topic: {topic}, schema: {{registry: confluent, format: avro}}}}
        models:
          - {{name: {topic}.m, sql: 'SELECT id FROM {{{{ source("s") }}}}'}}
        """
    write(tmp_path, {"stream_project.yml": project.replace("REGISTRY", registry)})
    assert all(f"has no subject `{topic}-value`" in text for text in refused(tmp_path))
    register(registry, f"{topic}-value", {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]})
    assert failing(tmp_path) == {}
    write(tmp_path, {"stream_project.yml": project.replace("REGISTRY", "http://127.0.0.1:9")})
    assert all("127.0.0.1:9" in text for text in refused(tmp_path))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id bigint PRIMARY KEY, amount double precision", None),
        (None, None),
        ("id bigint PRIMARY KEY", "has no column `amount`"),
        ("id bigint PRIMARY KEY, amount integer", "does not hold every double precision"),
        ("id bigint, amount double precision", "has no unique index over the primary key (id)"),
        ("id integer PRIMARY KEY, amount double precision", "is integer, which does not hold every bigint"),
    ],
)
def test_a_table_must_fit_the_rows(tmp_path: Path, database: Database, columns: str | None, said: str | None) -> None:
    table = f"t{uuid4().hex[:8]}"
    if columns is not None:
        database.rows(f"CREATE TABLE {table} ({columns})")
    write(
        tmp_path,
        {
            "stream_project.yml": f"""
            project: {{name: p}}
            sources:
              - {{name: s, topic: s.v1, columns: [{{name: id, type: BIGINT}}, {{name: amount, type: DOUBLE}}]}}
            models:
              - name: m
                key: id
                from: [{{source: s}}]
                advanced:
                  connector:
                    type: jdbc-sink
                    config:
                      connection.url: "{database.url}"
                      connection.user: {dev.USER}
                      connection.password: {dev.PASSWORD}
                      table.name.format: {table}
                      insert.mode: upsert
                      auto.create: true
            """
        },
    )
    found = failing(tmp_path)
    assert found == {} if said is None else said in found["sink m"]
    database.rows(f"DROP TABLE IF EXISTS {table}")
