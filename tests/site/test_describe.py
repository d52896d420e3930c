"""From a checked project to its site: what every page is told."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.site.describe import describe
from penstock.site.model import Site, SiteRule
from penstock.workflow.stages import Target, check, compile_project
from tests.support import write

PROJECT = """
project: {name: shop, version: "2", description: All orders}
rules: {models: {require_owner: true, require_description: true}}
sources:
  - name: orders
    topic: orders.v1
    freshness: {warn_after: 5m}
    columns:
      - {name: id, type: BIGINT, description: The number, tests: [not_null]}
      - {name: email, type: STRING, classification: sensitive}
models:
  - name: clean
    description: Sound orders
    access: protected
    sql: SELECT id, email AS contact FROM {{ source("orders") }} WHERE id > 0
    security: {masking: [{column: email, policy: hash}]}
    waivers: [{rule: models.require_owner, reason: new team, until: 2999-12-31}]
  - {name: bare, sql: 'SELECT id FROM {{ ref("clean") }}'}
tests:
  - {name: ids, model: clean, type: schema, assertions: [{not_null: {columns: [id]}}]}
exposures:
  - {name: board, type: dashboard, url: "https://u:pw@h/x", consumes: [{ref: clean}],
     sla: {availability: "99.9%", latency_p99_ms: 500, throughput_per_second: 20, max_lag_minutes: 5,
       max_error_rate: 0.001}, freshness: {max_lag_seconds: 300}}
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    write(tmp_path, {"stream_project.yml": PROJECT})
    checked = check(Target(tmp_path), governed=False)
    return describe(checked.graph, compile_project(checked), checked.notes, "dev")


def test_a_page_knows_its_element(site: Site) -> None:
    nodes = {node.id: node for node in site.nodes}
    clean = nodes["model.clean"]
    assert (site.name, site.version, site.environment) == ("shop", "2", "dev")
    assert set(site.edges) == {
        ("source.orders", "model.clean"),
        ("model.clean", "model.bare"),
        ("model.clean", "exposure.board"),
    }
    assert (clean.label, clean.access, clean.topic) == ("topic", "protected", "clean")
    assert clean.sql_written is not None
    assert "{{ source" in clean.sql_written
    assert clean.sql_run is not None
    assert "MD5" in clean.sql_run
    assert [test.name for test in clean.tests] == ["ids"]
    assert nodes["exposure.board"].url == "https://u:****@h/x"
    promised = [fact for fact in nodes["exposure.board"].facts if fact[0].startswith(("SLA", "Freshness"))]
    assert promised == [
        ("SLA availability", "99.9 %"),
        ("SLA latency p99", "500 ms"),
        ("SLA throughput", "20 per second"),
        ("SLA max lag", "5 min"),
        ("SLA max error rate", "0.1 %"),
        ("Freshness max lag", "300 s"),
    ]
    assert ("Freshness warns after", "300 s") in nodes["source.orders"].facts


def test_a_column_knows_where_it_comes_from_and_how_it_is_covered(site: Site) -> None:
    clean = next(node for node in site.nodes if node.id == "model.clean")
    assert clean.columns is not None
    number, contact = clean.columns
    assert (contact.classification, contact.masking) == ("sensitive", "hash (md5)")
    assert contact.origins == (("source.orders", "email"),)
    assert number.tests == ("not_null",)


def test_rules_are_broken_waived_or_kept(site: Site) -> None:
    rules = {node.name: {rule.rule: rule for rule in node.rules} for node in site.nodes}
    waived = SiteRule("models.require_owner", "waived", "`owner`", "nothing", "new team", "2999-12-31")
    assert rules["clean"]["models.require_owner"] == waived
    assert rules["clean"]["models.require_description"].status == "kept"
    assert rules["bare"]["models.require_description"].status == "broken"


def test_the_command_writes_the_site_of_a_project_that_breaks_rules(tmp_path: Path) -> None:
    write(tmp_path, {"stream_project.yml": PROJECT})
    result = CliRunner().invoke(app, ["docs", "generate", str(tmp_path)])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "site" / "model" / "clean.html").read_text(encoding="utf-8")
    assert "Sound orders" in page
    assert (tmp_path / "site" / "index.html").is_file()
