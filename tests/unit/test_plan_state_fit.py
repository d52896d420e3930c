"""A plan compares the columns that state is made of, and not the text of a query alone."""

from textwrap import dedent

import pytest

from penstock.manifest.model import Manifest
from penstock.manifest.queries.input_columns import declared_columns
from penstock.plan.deployed.state import Checkpoint, DeployedState
from penstock.plan.deployed.state_origin import StateOrigin
from penstock.plan.diff import diff
from penstock.plan.explain import explain
from tests.unit.conftest import Compile

FIRST = (
    "SELECT {columns} FROM"
    " (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY v DESC) AS rn FROM {{{{ ref('p') }}}})"
    " WHERE rn = 1"
)
NAMED = FIRST.format(columns="id, v")
WHOLE = FIRST.format(columns="*")


def project(p: str, q: str, *, delay: int = 30_000, columns: str = "") -> str:
    return dedent(
        f"""
        project: {{name: p}}
        sources:
          - name: s
            topic: s.v1
            columns: [{{name: id, type: BIGINT}}, {{name: v, type: BIGINT}}, {{name: at, type: TIMESTAMP}}{columns}]
            event_time: {{column: at, watermark: {{max_out_of_orderness_ms: {delay}}}}}
        models:
          - {{name: p, sql: "{p}"}}
          - {{name: q, sql: "{q}"}}
        """
    )


P = "SELECT id, v, at FROM {{ source('s') }}"


def deployed(manifest: Manifest) -> DeployedState:
    """As if the project had run."""
    checkpoints = {
        query.name: Checkpoint(True, False, StateOrigin(2, declared_columns(manifest, query)))
        for query in manifest.queries
    }
    topics = frozenset(topic.name for topic in manifest.topics)
    return DeployedState({q.name: q for q in manifest.queries}, topics, topics, checkpoints)


def lines(after: Manifest, before: Manifest) -> dict[str, str]:
    plan = diff(after, deployed(before))
    found = (explain(step) for step in plan.steps)
    return {line.name: f"{line.action}: {line.reason}" for line in found if line.subject == "query"}


MINUTE = "INTERVAL '1' MINUTE"
BY_MINUTE = (
    f"SELECT TUMBLE_START(at, {MINUTE}) AS since, SUM(v) AS v FROM {{{{ ref('p') }}}} GROUP BY TUMBLE(at, {MINUTE})"
)


@pytest.mark.parametrize("reader", [NAMED, BY_MINUTE])
def test_a_column_that_comes_upstream_does_not_concern_a_reader_that_names_others(
    reader: str, project_manifest: Compile
) -> None:
    before, after = (project_manifest(project(p, reader)) for p in (P, f"{P[:9]}, v + 1 AS w{P[9:]}"))
    plan = lines(after, before)
    assert plan["p"].startswith("restart")
    assert plan["q"].startswith("resume: unchanged")


def test_a_column_that_comes_upstream_is_told_to_a_reader_of_all_columns(project_manifest: Compile) -> None:
    before, after = (project_manifest(project(p, WHOLE)) for p in (P, f"{P[:9]}, v + 1 AS w{P[9:]}"))
    assert lines(after, before)["q"] == "restart: `w` of `p` is new; resumes where it stopped"
    assert lines(before, after)["q"] == "restart: `w` of `p` is gone; resumes where it stopped"


def test_a_join_of_sparks_own_has_no_room_for_a_column_that_comes(project_manifest: Compile) -> None:
    join = (
        "SELECT o.*, r.v AS other FROM {{ ref('p') }} AS o JOIN {{ source('s') }} AS r"
        " ON o.id = r.id AND r.at BETWEEN o.at AND o.at + INTERVAL '1' HOUR"
    )
    before, after = (project_manifest(project(p, join)) for p in (P, f"{P[:9]}, v + 1 AS w{P[9:]}"))
    assert lines(after, before)["q"].startswith(
        "rebuild: `w` of `p` is new, and its state has all columns; starts over"
    )


def test_another_type_upstream_is_a_rebuild_of_readers_with_state(project_manifest: Compile) -> None:
    other = P.replace("v,", "CAST(v AS DECIMAL(20, 2)) AS v,")
    for q in (NAMED, WHOLE, "SELECT id, SUM(v) AS total FROM {{ ref('p') }} GROUP BY id"):
        before, after = (project_manifest(project(p, q)) for p in (P, other))
        said = lines(after, before)["q"]
        assert said.startswith("rebuild: `v` of `p` was BIGINT and is DECIMAL(20, 2), and its state has the old type")
        assert "rows that `p` wrote (`--allow-rebuild p --truncate` writes them anew)" in said
        assert diff(after, deployed(before)).refusals


def test_another_type_upstream_does_not_concern_a_reader_without_state(project_manifest: Compile) -> None:
    other = P.replace("v,", "CAST(v AS DECIMAL(20, 2)) AS v,")
    before, after = (project_manifest(project(p, "SELECT id, v FROM {{ ref('p') }}")) for p in (P, other))
    assert lines(after, before)["q"].startswith("resume")


def test_a_type_that_is_only_known_better_by_now_changes_nothing(project_manifest: Compile) -> None:
    manifest = project_manifest(project(P, NAMED))
    state = deployed(manifest)
    state = DeployedState(
        state.queries,
        state.topics,
        state.filled,
        {name: Checkpoint(True, False, StateOrigin(2, {"model.p": {"v": "INT"}})) for name in state.checkpoints},
    )
    assert not diff(manifest, state).changes


def test_only_columns_that_are_used_must_stay_as_they_were_declared(project_manifest: Compile) -> None:
    counts = "SELECT id, COUNT(*) AS n FROM {{ source('s') }} GROUP BY id"
    unused, other = ", {name: x, type: INT}", ", {name: x, type: STRING}"
    before, after = (project_manifest(project(P, counts, columns=columns)) for columns in (unused, other))
    assert lines(after, before)["q"].startswith("restart: the columns of `s` changed")
    used = "SELECT x, COUNT(*) AS n FROM {{ source('s') }} GROUP BY x"
    before, after = (project_manifest(project(P, used, columns=columns)) for columns in (unused, other))
    assert lines(after, before)["q"].startswith("rebuild: the columns of `s` changed")


def test_another_delay_of_the_watermark_is_no_rebuild(project_manifest: Compile) -> None:
    for q in (
        "SELECT COUNT(*) AS n FROM {{ source('s') }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)",
        "SELECT id, COUNT(*) AS n FROM {{ source('s') }} GROUP BY id",
    ):
        before, after = (project_manifest(project(P, q, delay=delay)) for delay in (30_000, 60_000))
        plan = lines(after, before)
        assert {name: said.partition(":")[0] for name, said in plan.items()} == {"p": "restart", "q": "restart"}
        assert plan["q"].startswith("restart: the event time of `s` changed")


def test_a_column_that_comes_in_a_view_does_not_concern_state_that_does_not_use_it(project_manifest: Compile) -> None:
    view = project(P, NAMED).replace("{name: p, sql", "{name: p, materialized: virtual_topic, sql")
    before, after, other = (
        project_manifest(view.replace("id, v, at", columns))
        for columns in ("id, v, at", "id, v, at, v + 1 AS w", "id, v + 1 AS v")
    )
    assert lines(after, before)["q"] == "restart: its SQL changed; resumes where it stopped"
    assert lines(other, before)["q"].startswith("rebuild: its SQL changed")


AVRO = """
project: {name: p}
runtime: {kafka: {bootstrap_servers: "broker:9092"}, schema_registry: {url: "http://registry:8081"}}
sources:
  - name: s
    topic: s.v1
    schema:
      format: avro
      definition: |
        {"type": "record", "name": "S", "fields": [
          {"name": "id", "type": "long"},
          {"name": "v", "type": {"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 18}}]}
models:
  - {name: p, sql: "SELECT id, v FROM {{ source('s') }}"}
  - {name: a, sql: "SELECT id, MAX(v) AS v FROM {{ ref('p') }} GROUP BY id"}
  - {name: b, sql: "SELECT id, MAX(v) AS v FROM {{ source('s') }} GROUP BY id"}
  - {name: c, sql: "SELECT id, COUNT(*) AS n FROM {{ source('s') }} GROUP BY id"}
"""


def begun_with(manifest: Manifest, **origins: StateOrigin) -> dict[str, str]:
    """The plan of a project whose queries have run, some with state that was begun with other columns."""
    state = deployed(manifest)
    checkpoints = {**state.checkpoints, **{name: Checkpoint(True, False, of) for name, of in origins.items()}}
    plan = diff(manifest, DeployedState(state.queries, state.topics, state.filled, checkpoints))
    found = (explain(step) for step in plan.steps)
    return {line.name: f"{line.action}: {line.reason}" for line in found if line.subject == "query"}


def test_numbers_of_avro_that_are_read_as_another_type_are_a_rebuild(project_manifest: Compile) -> None:
    manifest = project_manifest(AVRO)
    assert {said.partition(":")[0] for said in begun_with(manifest).values()} == {"resume"}
    texts = begun_with(
        manifest,
        a=StateOrigin(2, {"model.p": {"id": "BIGINT", "v": "STRING"}}),
        b=StateOrigin(2, {"source.s": {"id": "BIGINT", "v": "STRING"}}),
        c=StateOrigin(2, {"source.s": {"id": "INT"}}),
    )
    wide = "was STRING and is DECIMAL(100, 18), and its state has the old type"
    assert texts["a"].startswith(f"rebuild: `v` of `p` {wide}, as have rows that `p` wrote")
    assert texts["b"].startswith(f"rebuild: `v` of `s` {wide}; starts over")
    assert texts["c"].startswith("rebuild: `id` of `s` was INT and is BIGINT, and its state has the old type")


def test_state_that_has_wide_numbers_goes_on_whatever_was_declared(project_manifest: Compile) -> None:
    declared = {"source.s": {"id": "STRING", "v": "STRING"}}
    origin = StateOrigin(2, declared, {"model.b$1": {"_k0": "bigint", "_row.v.dec_100_18": "binary"}})
    assert begun_with(project_manifest(AVRO), b=origin)["b"].startswith("resume: unchanged")
