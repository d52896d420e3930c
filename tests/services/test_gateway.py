"""Virtual topics of Conduktor's gateway, made, changed and taken away by the steps of a plan.

The gateway is a double: see `tests.services.gateway`.
"""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from penstock.clients import conduktor as client
from penstock.clients.conduktor import ConduktorGateway, GatewayInterceptor
from penstock.errors import PlanRefused, ServiceError
from penstock.plan.explain import explain
from penstock.workflow.stages import check, compile_project, plan_project
from tests.services.gateway import PASSWORD, USER, GatewayDouble
from tests.services.gateway import running as double_running
from tests.spark.running import Running
from tests.support import write

CASES = Path(__file__).parents[1] / "golden" / "cases"
PROJECT = """
project: {{name: views}}
runtime:
  kafka: {{bootstrap_servers: "127.0.0.1:9"}}
  conduktor: {{gateway: {{admin_url: "{url}", password: "${{GATEWAY_PASSWORD}}"{more}}}}}
sources:
  - name: orders
    topic: orders.v1
    columns: [{{name: id, type: BIGINT}}, {{name: region, type: STRING}}, {{name: email, type: STRING}}]
  - name: payments
    topic: payments.v1
    schema: {{format: avro, subject: payments-value}}
    columns: [{{name: id, type: BIGINT}}]
models:
{models}
"""
EUROPE = """
  - name: europe
    gateway: {virtual_topic: orders.europe}
    sql: SELECT * FROM {{ source("orders") }} WHERE region = 'EU'
"""
MASKED = EUROPE + "    security: {policies: [{mask: {column: email, method: redact}}]}\n"
STATEMENT = 'SELECT * FROM "orders.v1" WHERE region = '


@pytest.fixture
def double() -> Iterator[GatewayDouble]:
    with double_running() as found:
        yield found


class Given:
    """A project whose gateway is the double."""

    def __init__(self, root: Path, double: GatewayDouble) -> None:
        self.root = root
        self.double = double

    def written(self, models: str, *, url: str | None = None, more: str = "") -> "Given":
        text = PROJECT.format(url=url or self.double.url, more=more, models=models or "  []")
        write(self.root, {"stream_project.yml": text})
        return self

    def steps(self) -> list[str]:
        checked = check(self.root)
        plan = plan_project(checked, compile_project(checked))
        if plan.refusals:
            raise PlanRefused.from_refusals(plan.refusals)
        return [str(explain(step)) for step in plan.changes]

    def config(self, name: str) -> dict[str, object]:
        found = next(body for key, body in self.double.interceptors.items() if key[0] == name)
        return dict(found["spec"]["config"])


@pytest.fixture
def given(tmp_path: Path, double: GatewayDouble, monkeypatch: pytest.MonkeyPatch) -> Given:
    monkeypatch.setenv("GATEWAY_PASSWORD", PASSWORD)
    return Given(tmp_path, double)


# With Spark, because a run has it; no query is started, and no broker asked.


def test_a_virtual_topic_lives_as_long_as_its_model(given: Given, running: Running) -> None:
    given.written(EUROPE)
    assert given.steps() == ["+ create virtual topic orders.europe: a view of `orders.v1`"]
    assert given.double.changes == [], "a plan changes nothing"
    running.run()
    assert given.double.names() == (["orders.europe"], ["orders.europe-select"])
    assert given.config("orders.europe-select") == {"virtualTopic": "orders.europe", "statement": f"{STATEMENT}'EU'"}
    assert given.steps() == []

    given.written(EUROPE.replace("'EU'", "'ASIA'"))
    changed = f"~ change virtual topic orders.europe: `{STATEMENT}'EU'` -> `{STATEMENT}'ASIA'`"
    assert given.steps() == [changed]
    running.run()
    assert given.config("orders.europe-select")["statement"] == f"{STATEMENT}'ASIA'"
    assert given.steps() == []

    given.written("")
    gone = "no longer in the project; the topic below stays"
    assert given.steps() == [f"- delete virtual topic orders.europe: {gone}"]
    running.run()
    assert given.double.names() == ([], [])
    assert given.steps() == []


def test_nobody_reads_what_is_not_masked_yet(given: Given, running: Running) -> None:
    given.written(MASKED)
    running.run()
    names = ["interceptor orders.europe-mask", "interceptor orders.europe-select", "alias orders.europe"]
    assert given.double.changes == [f"put {name}" for name in names]
    policy = {"name": "mask email", "fields": ["email"], "rule": {"type": "MASK_ALL"}}
    assert given.config("orders.europe-mask") == {"topic": r"^orders\.europe$", "policies": [policy]}
    given.double.changes.clear()
    given.written("")
    running.run()
    assert given.double.changes == [f"delete {name}" for name in (names[2], names[1], names[0])]


def test_a_mask_that_is_no_longer_wanted_is_taken_away(given: Given, running: Running) -> None:
    given.written(MASKED)
    running.run()
    given.written(EUROPE)
    assert given.steps() == ["~ change virtual topic orders.europe: mask of email -> none"]
    running.run()
    assert given.double.names() == (["orders.europe"], ["orders.europe-select"])
    assert given.steps() == []


def test_what_others_have_changed_is_shown_and_put_right(given: Given, running: Running) -> None:
    given.written(MASKED)
    running.run()
    (select,) = (body for key, body in given.double.interceptors.items() if key[0] == "orders.europe-select")
    select["spec"]["config"]["statement"] = 'SELECT * FROM "orders.v1"'
    given.double.interceptors = {key: b for key, b in given.double.interceptors.items() if b is select}
    (step,) = given.steps()
    changes = [f"none -> mask of email, `SELECT * FROM \"orders.v1\"` -> `{STATEMENT}'EU'`"]
    assert step == f"~ change virtual topic orders.europe: {', '.join(changes)}"
    running.run()
    assert given.double.names() == (["orders.europe"], ["orders.europe-mask", "orders.europe-select"])
    assert given.steps() == []

    given.double.aliases.clear()
    assert given.steps() == ["~ change virtual topic orders.europe: the topic is gone"]
    running.run()
    select["spec"]["priority"] = 1
    given.double.interceptors[("orders.europe-select", "passthrough", None, None)] = select
    select["spec"]["config"]["statement"] = f"{STATEMENT}'EU'"
    assert given.steps() == ["~ change virtual topic orders.europe: settings of orders.europe-select changed"]


def test_what_the_project_has_not_made_stays(given: Given, running: Running) -> None:
    given.double.put_alias(alias("of-others", "theirs"), dry=False)
    given.written(EUROPE)
    running.run()
    given.written("")
    running.run()
    assert given.double.names() == (["of-others"], [])


def test_another_name_and_another_virtual_cluster_leave_nothing_behind(given: Given, running: Running) -> None:
    given.double.clusters.add("shop")
    given.written(EUROPE)
    running.run()
    given.written(EUROPE.replace("orders.europe", "orders.eu"), more=", virtual_cluster: shop")
    assert [step.partition(":")[0] for step in given.steps()] == [
        "- delete virtual topic orders.europe",
        "+ create virtual topic orders.eu",
    ]
    running.run()
    given.written(EUROPE.replace("orders.europe", "orders.eu"))
    assert [step.partition(":")[0] for step in given.steps()] == [
        "- delete virtual topic orders.eu",
        "+ create virtual topic orders.eu",
    ]
    running.run()
    assert list(given.double.aliases) == [("orders.eu", "passthrough")]
    assert list(given.double.interceptors) == [("orders.eu-select", "passthrough", None, None)]
    assert given.steps() == []


def test_a_run_that_was_broken_off_is_finished_by_the_next(given: Given, running: Running) -> None:
    given.written(MASKED)
    given.double.lag_secs = 0
    given.double.broken_at = "alias orders.europe"
    with pytest.raises(ServiceError, match="answers 409"):
        running.run()
    given.double.broken_at = None
    assert given.steps() == ["~ change virtual topic orders.europe: the topic is gone"]
    given.written("")
    assert len(given.steps()) == 1, "what was begun is known, and taken away"
    running.run()
    assert given.double.names() == ([], [])


def test_a_gateway_that_is_no_longer_named_is_left_alone(given: Given, running: Running) -> None:
    given.written(EUROPE)
    running.run()
    text = (given.root / "stream_project.yml").read_text().replace(f'admin_url: "{given.double.url}", ', "")
    write(given.root, {"stream_project.yml": text.replace(EUROPE, "  []\n")})
    stays = "no gateway is configured; it stays there"
    assert given.steps() == [f"- forget virtual topic orders.europe: {stays}"]
    running.run()
    assert given.steps() == []
    assert given.double.names() == (["orders.europe"], ["orders.europe-select"])
    given.written(EUROPE)
    taken = "it exists already, and this project takes it over"
    assert given.steps() == [f"~ change virtual topic orders.europe: {taken}"]


def alias(name: str, physical: str) -> dict[str, object]:
    return {
        "kind": "AliasTopic",
        "apiVersion": "gateway/v2",
        "metadata": {"name": name},
        "spec": {"physicalName": physical},
    }


# Without Spark


def test_the_password_is_sent_and_never_shown(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    given.written(EUROPE)
    assert len(given.steps()) == 1
    checked = check(given.root)
    assert checked.clusters.gateway is not None
    assert checked.clusters.gateway.password == PASSWORD
    assert PASSWORD not in repr(checked.clusters) + compile_project(checked).to_json()
    monkeypatch.setenv("GATEWAY_PASSWORD", "wrong-one")
    with pytest.raises(ServiceError, match="answers 401: The given credentials are not valid") as failed:
        given.steps()
    assert failed.value.code == "gateway-failed"
    assert failed.value.hint == "see the user and the password in `runtime.conduktor.gateway`"
    assert "wrong-one" not in str(failed.value)


def test_what_the_gateway_does_not_take_is_refused_in_its_words_before_anything_is_changed(given: Given) -> None:
    given.double.find_failure = "the licence is not for this plugin"
    given.written(EUROPE)
    said = "rejects `orders.europe`: orders.europe-select: The request is not valid: the licence is not for this"
    with pytest.raises(PlanRefused, match=said) as refused:
        given.steps()
    assert refused.value.code == "gateway-refused"
    assert given.double.changes == []


def test_a_virtual_cluster_that_is_not_there_is_refused(given: Given) -> None:
    given.written(EUROPE, more=", virtual_cluster: nowhere")
    with pytest.raises(PlanRefused, match="there is no virtual cluster nowhere") as refused:
        given.steps()
    assert refused.value.code == "gateway-refused"


def test_records_with_a_schema_need_a_registry(given: Given) -> None:
    given.written("  - {name: large, sql: 'SELECT * FROM {{ source(\"payments\") }} WHERE id > 1'}\n")
    with pytest.raises(PlanRefused, match="and there is no registry"):
        given.steps()


def test_the_registry_is_named_to_the_gateway_and_its_password_is_not_shown(given: Given) -> None:
    given.written("  - {name: large, sql: 'SELECT * FROM {{ source(\"payments\") }} WHERE id > 1'}\n")
    text = (given.root / "stream_project.yml").read_text()
    registry = '  schema_registry: {url: "http://127.0.0.1:9", username: u, password: hidden-word}\n'
    write(given.root, {"stream_project.yml": text.replace("runtime:\n", f"runtime:\n{registry}")})
    assert given.steps() == ["+ create virtual topic large: a view of `payments.v1`"]
    given.double.find_failure = "u:hidden-word cannot log in"
    with pytest.raises(PlanRefused, match=r"u:\*\*\*\* cannot log in"):
        given.steps()


def test_nobody_there(given: Given) -> None:
    given.written(EUROPE, url="http://127.0.0.1:9")
    with pytest.raises(ServiceError, match=r"the gateway at http://127\.0\.0\.1:9 does not answer") as failed:
        given.steps()
    assert (failed.value.code, failed.value.retriable) == ("unreachable", True)


@pytest.mark.parametrize("url", ["gateway", "ftp://gateway", "http://"])
def test_an_address_that_is_none(given: Given, url: str) -> None:
    given.written(EUROPE, url=url)
    with pytest.raises(ServiceError) as failed:
        given.steps()
    assert failed.value.code == "unreachable"


def test_somebody_who_never_answers(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.TIMEOUT_SECS <= 15
    monkeypatch.setattr(client, "TIMEOUT_SECS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        given.written(EUROPE, url=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        with pytest.raises(ServiceError, match="does not answer: timed out"):
            given.steps()


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"<html>", "unreachable"), (b'{"a": 1}', "gateway-failed"), (b"[1]", "gateway-failed"), (b"", "gateway-failed")],
)
def test_somebody_else_at_the_address(given: Given, body: bytes, code: str) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            given.written(EUROPE, url=f"http://127.0.0.1:{other.server_address[1]}")
            with pytest.raises(ServiceError) as failed:
                given.steps()
        finally:
            other.shutdown()
    assert failed.value.code == code


def test_what_was_done_shows_when_the_call_comes_back(double: GatewayDouble) -> None:
    gateway = ConduktorGateway(double.url, USER, PASSWORD)
    select = GatewayInterceptor(
        "io.conduktor.gateway.interceptor.VirtualSqlTopicPlugin",
        100,
        {"virtualTopic": "v", "statement": "SELECT * FROM \"t\" WHERE a = 'x'"},
    )
    gateway.put("v", "t", {"v-select": select})
    assert gateway.read_state("passthrough").aliases == {"v": "t"}
    assert gateway.read_state("passthrough").interceptors == {"v-select": select}
    gateway.delete("passthrough", "v", ["v-select"])
    gateway.delete("passthrough", "v", ["v-select"])
    assert gateway.read_state("passthrough") == client.GatewayState()


# The double


@pytest.mark.parametrize("case", sorted(CASES.glob("*/expected/gateway.json")), ids=lambda file: file.parts[-3])
def test_whatever_validate_lets_pass_is_within_the_public_description(double: GatewayDouble, case: Path) -> None:
    gateway = ConduktorGateway(double.url, USER, PASSWORD)
    sent = json.loads(case.read_text())
    assert sent
    for topic, found in sent.items():
        interceptors = {name: GatewayInterceptor(**interceptor) for name, interceptor in found.items()}
        assert gateway.problems(topic, "below", interceptors) == []


@pytest.mark.parametrize(
    ("plugin", "config", "said"),
    [
        ("VirtualSqlTopicPlugin", {"virtualTopic": "v"}, "lacks statement"),
        ("VirtualSqlTopicPlugin", {"virtualTopic": "v", "statement": 'SELECT * FROM "t"', "x": 1}, "unknown fields: x"),
        ("VirtualSqlTopicPlugin", {"virtualTopic": "v", "statement": 'SELECT * FROM "t" WHERE a IN (1)'}, "parse"),
        ("VirtualSqlTopicPlugin", {"virtualTopic": "v", "statement": 'SELECT UPPER(a) FROM "t"'}, "cannot parse"),
        ("FieldLevelDataMaskingPlugin", {"policies": [{"name": "p", "fields": ["a"]}]}, "policy lacks rule"),
        (
            "FieldLevelDataMaskingPlugin",
            {"policies": [{"name": "p", "fields": ["a"], "rule": {"type": "HASH"}}]},
            "there is no masking type HASH",
        ),
        ("MaskingPlugin", {}, "there is no plugin"),
    ],
)
def test_the_double_takes_nothing_else(
    double: GatewayDouble, plugin: str, config: dict[str, object], said: str
) -> None:
    interceptor = GatewayInterceptor(f"io.conduktor.gateway.interceptor.{plugin}", 100, config)
    (problem,) = ConduktorGateway(double.url, USER, PASSWORD).problems("v", "t", {"i": interceptor})
    assert problem.startswith("i: The request is not valid: ")
    assert said in problem
