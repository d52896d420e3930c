"""What is kept of services that do not run, and how documents reach those that do."""

import socket
from pathlib import Path

from penstock.dev.processes import own_port
from penstock.dev.variables import PIPELINE, PROJECT, variables
from penstock.project.application_settings import settings_from

REPORT = {
    "kafka": {"bootstrap_servers": "127.0.0.1:1001"},
    "registry": {"url": "http://127.0.0.1:1002"},
    "connect": {"url": "http://127.0.0.1:1003"},
    "postgres": {"host": "127.0.0.1", "port": 1004, "user": "u", "password": "p w", "database": "d"},
    "clickhouse": {"url": "http://127.0.0.1:1005", "user": "default", "password": "", "database": "default"},
}


def test_a_service_keeps_its_port_until_somebody_else_has_it(tmp_path: Path) -> None:
    first = own_port(tmp_path)
    assert own_port(tmp_path) == first
    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()
        second = own_port(tmp_path)
    assert second != first
    assert own_port(tmp_path) == second
    assert own_port(tmp_path, 4321) == 4321


def test_pipelines_take_the_services_that_run_from_their_variables() -> None:
    settings = settings_from(variables(PIPELINE, REPORT))
    assert settings.kafka_source.brokers == settings.kafka_sink.brokers == "127.0.0.1:1001"
    assert settings.kafka_sink.schema_registry_url == "http://127.0.0.1:1002"
    assert (settings.postgres_sink.port, settings.postgres_sink.db) == (1004, "d")
    assert settings.postgres_sink.pass_ is not None
    assert settings.postgres_sink.pass_.get_secret_value() == "p w"
    assert settings.clickhouse_source.url == settings.clickhouse_sink.url == "http://127.0.0.1:1005"


def test_projects_have_a_variable_for_everything_and_only_of_what_runs() -> None:
    assert variables(PROJECT, {"kafka": REPORT["kafka"]}) == {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1001"}
    found = variables(PROJECT, REPORT)
    assert sorted(found.values()) == sorted(str(value) for about in REPORT.values() for value in about.values())
