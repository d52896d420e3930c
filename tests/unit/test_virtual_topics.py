"""Virtual topics: what a gateway is told, what it cannot be told, and what a plan makes of what it has."""

import pytest

from penstock.cli.run import guard
from penstock.clients.conduktor import GatewayInterceptor, GatewayState
from penstock.codes import CODES
from penstock.errors import PlanRefused
from penstock.manifest.compile import compile
from penstock.manifest.model import Manifest
from penstock.manifest.resources import GatewayRule
from penstock.plan.deployed.state import NOTHING, DeployedState
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from penstock.plan.steps import Plan
from penstock.plan.systems.gateway import Gateways, interceptors
from penstock.project.project import Environment
from tests.support import errors, only
from tests.unit.conftest import MAIN, Check, Compile, Link

HEAD = """
project: {name: p}
runtime: {kafka: {bootstrap_servers: "k:9092"}, conduktor: {gateway: {admin_url: "http://g:8888"}}}
sources:
  - name: s
    topic: s.v1
    columns: [{name: id, type: BIGINT}, {name: note, type: STRING}, {name: price, type: "DECIMAL(9, 2)"}]
models:
"""
S = "{{ source('s') }}"


def model(sql: str, more: str = "", name: str = "m") -> str:
    return f'  - name: {name}\n    sql: "{sql}"\n{more}'


def rule(project_manifest: Compile, models: str) -> GatewayRule:
    return project_manifest(HEAD + models).gateway_rules[-1]


def statement(project_manifest: Compile, sql: str) -> object:
    found = interceptors(rule(project_manifest, model(sql)), None)
    return found["m-select"].config["statement"] if found else None


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        (f"SELECT * FROM {S}", None),
        (f"SELECT s.* FROM {S}", None),
        (f"SELECT x.* FROM {S} AS x WHERE x.id = 1", 'SELECT * FROM "s.v1" WHERE id = 1'),
        (
            f"SELECT * FROM {S} WHERE ((id > 1) AND (note <> 'a'))",
            """SELECT * FROM "s.v1" WHERE id > 1 AND note <> 'a'""",
        ),
        (f"SELECT * FROM {S} WHERE 1 >= id AND 2 != id", 'SELECT * FROM "s.v1" WHERE id <= 1 AND id <> 2'),
        (f"SELECT * FROM {S} WHERE price < 1.5", 'SELECT * FROM "s.v1" WHERE price < 1.5'),
        (f"SELECT * FROM {S} WHERE REGEXP(note, 'a+')", """SELECT * FROM "s.v1" WHERE note REGEXP 'a+'"""),
        (f"SELECT * FROM {S} WHERE note REGEXP 'it''s'", """SELECT * FROM "s.v1" WHERE note REGEXP 'it''s'"""),
        (f"SELECT ID, `note` AS n FROM {S}", 'SELECT id AS ID, note AS n FROM "s.v1"'),
        (f"SELECT id /* all of them */ FROM {S} -- really", 'SELECT id FROM "s.v1"'),
    ],
)
def test_sql_is_said_in_the_words_of_the_gateway(project_manifest: Compile, sql: str, sent: str | None) -> None:
    assert statement(project_manifest, sql) == sent


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        (f"SELECT * FROM {S} WHERE id = 1 OR id = 2", "OR"),
        (f"SELECT * FROM {S} WHERE note IS NULL", "IS NULL"),
        (f"SELECT * FROM {S} WHERE NOT (note LIKE 'x')", "NOT LIKE"),
        (f"SELECT * FROM {S} WHERE note = UPPER(note)", "UPPER(…)"),
        (f"SELECT * FROM {S} WHERE CASE WHEN id = 1 THEN TRUE ELSE FALSE END", "CASE in this place"),
        (f"SELECT id + 1 AS n FROM {S}", "`id + 1`"),
        (f"SELECT COALESCE(note, '') AS n FROM {S}", "COALESCE(…)"),
        (f"SELECT CASE WHEN id = 1 OR id = 2 THEN 'a' ELSE 'b' END AS c FROM {S}", "OR"),
        (f"SELECT x.id FROM {S} AS x, UNNEST(ARRAY[1]) AS t(v)", "JOIN"),
    ],
)
@pytest.mark.parametrize("said", ["", "    materialized: virtual_topic\n"])
def test_what_the_gateway_cannot_say_is_refused_with_its_name_and_the_way_out(
    check: Check, sql: str, construct: str, said: str
) -> None:
    found = only(errors(check({MAIN: HEAD + model(sql, said)})[1]))
    assert (found.code, found.params) == ("gateway-unsupported", {"subject": construct})
    assert found.hint is not None
    assert found.hint.startswith("write `materialized: topic`")
    assert ("without state" in found.hint) == (not said), "who did not ask for a virtual topic is told why it is one"
    graph, notes = check({MAIN: HEAD + model(sql, "    materialized: topic\n")})
    assert errors(notes) == []
    assert graph is not None
    assert compile(graph).gateway_rules == ()


def test_without_a_gateway_a_view_may_say_anything(check: Check) -> None:
    text = HEAD.replace(', conduktor: {gateway: {admin_url: "http://g:8888"}}', "")
    sql = f"SELECT UPPER(note) AS n FROM {S} WHERE id IN (1, 2)"
    assert errors(check({MAIN: text + model(sql, "    materialized: virtual_topic\n")})[1]) == []


def test_spark_reads_a_virtual_topic_as_a_view(project_manifest: Compile) -> None:
    reader = model("SELECT COUNT(*) AS n, note FROM {{ ref('m') }} GROUP BY note", name="counted")
    manifest = project_manifest(HEAD + model(f"SELECT note FROM {S} WHERE id > 1") + reader)
    (query,) = manifest.queries
    assert [entry.node for entry in query.inputs] == ["source.s"]
    assert [topic.name for topic in manifest.topics] == ["counted"]


def test_a_virtual_topic_of_a_virtual_topic_is_one_of_the_topic_below(project_manifest: Compile) -> None:
    lower = model(
        f"SELECT id AS number, note FROM {S} WHERE id > 1",
        "    security: {masking: [{column: note, policy: redact}]}\n",
    )
    upper = model("SELECT note AS remark FROM {{ ref('m') }} WHERE number < 9", name="n")
    found = rule(project_manifest, lower + upper)
    assert found.physical_topic == "s.v1"
    select, mask = interceptors(found, None).values()
    assert select.config["statement"] == 'SELECT note AS remark FROM "s.v1" WHERE id > 1 AND id < 9'
    assert [policy["fields"] for policy in mask.config["policies"]] == [["remark"]]


# Plans


def asked(manifest: Manifest, has: GatewayState | None = None) -> Gateways:
    wanted = {rule.virtual_topic: interceptors(rule, None) for rule in manifest.gateway_rules}
    return Gateways("passthrough", {"passthrough": has or GatewayState()}, wanted=wanted)


def lines(plan: Plan) -> list[str]:
    return [str(explain(step)) for step in plan.steps]


@pytest.fixture
def manifest(project_graph: Link) -> Manifest:
    return compile(project_graph(HEAD + model(f"SELECT * FROM {S} WHERE id > 1")))


def test_a_gateway_that_was_not_asked_is_a_refusal(manifest: Manifest) -> None:
    (refusal,) = diff(manifest, NOTHING).refusals
    assert refusal.code == "not-runnable-here"
    assert refusal.hint is not None
    assert "runtime.conduktor.gateway.admin_url" in refusal.hint


def test_the_gateway_has_nothing_to_do_with_a_selection(manifest: Manifest) -> None:
    plan = diff(manifest, DeployedState(virtual_topics={"old": "passthrough"}), select=["another"])
    assert (plan.steps, plan.refusals) == ((), ())


def test_what_is_as_it_should_be_and_recorded_is_no_step(manifest: Manifest) -> None:
    gateways = asked(manifest)
    has = GatewayState({"m": "s.v1"}, gateways.wanted["m"])
    assert (
        lines(diff(manifest, DeployedState(virtual_topics={"m": "passthrough"}), gateways=asked(manifest, has))) == []
    )


def test_every_difference_is_named(manifest: Manifest) -> None:
    other = GatewayInterceptor("x.Plugin", 100, {"policies": "none"})
    has = GatewayState({"m": "t.v1"}, {"m-select": other, "m-mask": other, "of-others": other})
    plan = diff(manifest, DeployedState(virtual_topics={"m": "passthrough"}), gateways=asked(manifest, has))
    assert lines(plan) == [
        "~ change virtual topic m: a view of `t.v1` -> `s.v1`, another interceptor -> none, "
        'another interceptor -> `SELECT * FROM "s.v1" WHERE id > 1`'
    ]


def test_what_the_gateway_says_is_a_refusal(manifest: Manifest) -> None:
    gateways = Gateways(
        "passthrough", {"passthrough": GatewayState()}, {"m": ("m-select: no",)}, asked(manifest).wanted
    )
    (refusal,) = diff(manifest, NOTHING, gateways=gateways).refusals
    assert (refusal.code, refusal.message) == ("gateway-refused", "the gateway rejects `m`: m-select: no")
    assert refusal.code in CODES


def test_an_environment_that_forbids_to_delete_keeps_its_virtual_topics(manifest: Manifest) -> None:
    plan = diff(manifest, DeployedState(virtual_topics={"old": "passthrough"}), gateways=asked(manifest))
    frozen = Environment("prod", "", asks_first=False, allow_destructive=False)
    with pytest.raises(PlanRefused) as refused:
        guard(frozen, plan, confirmed=True, forced=False)
    assert refused.value.code == "destructive-refused"
    assert "old" in refused.value.message
