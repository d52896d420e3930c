"""Models that only name what they read, and what cannot be read."""

from pathlib import Path

from penstock.graph.column_lineage import upstream_edges
from tests.support import codes, errors, link_text, only
from tests.unit.conftest import MAIN, Check, Compile, Findings

SOURCES = """
project: {name: p}
sources:
  - {name: a, topic: a, columns: [{name: id, type: BIGINT}, {name: email, type: STRING}]}
  - {name: b, topic: b, columns: [{name: email, type: STRING}, {name: id, type: BIGINT}]}
  - {name: c, topic: c, columns: [{name: id, type: BIGINT}]}
  - {name: n, topic: n, columns: [{name: v, type: "STRUCT<email STRING>"}]}
models:
"""
FILE = "connector: {type: file, config: {path: out, format: json}}"


def test_inputs_are_put_together_by_the_names_of_their_columns(project_manifest: Compile) -> None:
    masking = "security: {masking: [{column: email, policy: redact}]}"
    text = f"{SOURCES}  - {{name: both, from: [{{source: a}}, {{source: b}}], {masking}, {FILE}}}\n"
    sql = project_manifest(text).query("both").steps[0].sql
    assert sql.count("SELECT `id`, `email` FROM") == 2


def test_inputs_with_other_columns_are_refused(project: Findings) -> None:
    found = only(project(f"{SOURCES}  - {{name: both, from: [{{source: a}}, {{source: c}}], {FILE}}}\n"))
    assert found.code == "sql-statement"
    assert "`c` lacks email" in found.message


def test_nothing_reads_from_a_sink(project: Findings) -> None:
    text = f"{SOURCES}  - {{name: out, from: {{source: a}}, {FILE}}}\n"
    text += "  - {name: after, sql: 'SELECT * FROM {{ ref(\"out\") }}'}\n"
    assert codes(errors(project(text))) == ["invalid-value"]


def test_a_mask_over_the_fields_of_a_struct_is_refused(project: Findings) -> None:
    text = f"{SOURCES}  - name: m\n    sql: SELECT v.* FROM {{{{ source('n') }}}}\n"
    text += "    security: {masking: [{column: v, policy: hash}]}\n"
    assert codes(errors(project(text))) == ["mask-column-missing"]


def test_a_link_that_leads_nowhere_is_reported(check: Check, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "dead.yml").symlink_to(tmp_path / "nowhere")
    (tmp_path / "environments").symlink_to(tmp_path / "nowhere")
    assert codes(errors(check({MAIN: SOURCES})[1])) == ["file-unreadable", "file-unreadable"]


def test_the_lineage_of_a_column_ends_at_its_depth(tmp_path: Path) -> None:
    text = SOURCES + "".join(
        f"  - {{name: m{n}, sql: 'SELECT id FROM {{{{ {origin} }}}}'}}\n"
        for n, origin in enumerate(['source("a")', 'ref("m0")', 'ref("m1")'])
    )
    graph = link_text(tmp_path, {MAIN: text})
    assert [len(upstream_edges(graph, "model.m2", "id", depth)) for depth in (None, 2, 1, 0)] == [3, 2, 1, 0]
