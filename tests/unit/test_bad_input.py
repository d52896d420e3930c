"""Names and files that nobody should write, and somebody will."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from sqlglot import exp, parse_one

from penstock.graph import lineage
from penstock.graph.graph import Graph
from penstock.manifest.artifacts import artifacts
from penstock.manifest.compile import compile
from penstock.project.yaml.read import read_document
from tests.support import codes, errors, only
from tests.unit.conftest import MAIN, Check, Findings

NAMES = {
    "spaces": "my model",
    "a dot": "my.model",
    "single quotes": "it's",
    "double quotes": 'say "hi"',
    "a backtick": "a`b",
    "a backslash": "a\\b",
    "a slash": "../../etc",
    "braces": "a}}b{{c",
    "a percent": "{% if %}",
    "a dollar": "a$b",
    "300 characters": "n" * 300,
    "another script": "заказы",
    "signs": "日本-🙂",
    "a reserved word": "select",
    "another reserved word": "FROM",
    "a number": "123",
    "SQL": "x`; DROP TABLE y; --",
    "more SQL": "x` UNION ALL SELECT * FROM `source.secret",
    "a comment": "x /* y",
    "markup": "<script>alert(1)</script>",
    "a kind": "model.x",
    "a word of YAML": "null",
}


def document(name: str) -> str:
    """A source, two models and an exposure, all of them called that."""
    ref = json.dumps(name, ensure_ascii=False)
    return json.dumps(
        {
            "project": {"name": "p"},
            "sources": [{"name": name, "topic": "in.v1", "columns": [{"name": "id", "type": "BIGINT"}, {"name": "x"}]}],
            "models": [
                {
                    "name": name,
                    "sql": f"SELECT id, x FROM {{{{ source({ref}) }}}}",
                    "advanced": {"topic": {"name": "a.v1"}},
                },
                {"name": "reader", "sql": f"SELECT t.id FROM {{{{ ref({ref}) }}}} AS t WHERE t.id > 1"},
            ],
            "exposures": [{"name": name, "consumes": [name]}],
        },
        ensure_ascii=False,
    )


def sound(check: Check, name: str) -> Graph:
    graph, found = check({MAIN: document(name)})
    assert found == ()
    assert graph is not None
    return graph


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_any_line_of_text_is_a_name_in_every_kind(check: Check, name: str) -> None:
    graph = sound(check, name)
    assert list(graph.nodes) == [f"source.{name}", f"model.{name}", "model.reader", f"exposure.{name}"]
    assert graph["model.reader"].inputs == (f"model.{name}",)
    assert graph[f"exposure.{name}"].inputs == (f"model.{name}",)


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_every_name_stays_in_its_quotes_and_can_be_drawn_and_written(check: Check, name: str) -> None:
    graph = sound(check, name)
    manifest = compile(graph)
    for query in manifest.queries:
        for step in query.steps:
            tree = parse_one(step.sql, read="spark")
            assert isinstance(tree, exp.Select)
            assert [table.name for table in tree.find_all(exp.Table)] == [entry.view for entry in query.inputs]
            assert tree.find(exp.Union, exp.Drop) is None
    files = artifacts(manifest)
    assert all(len(file.encode()) < 220 and ".." not in file.split("/") for file in files)
    assert len({file.casefold() for file in files}) == len(files)
    assert lineage.render_tree(graph, list(graph.nodes)).count("\n") == 3
    drawn = lineage.render_mermaid(graph, list(graph.nodes)).splitlines()
    assert len(drawn) == 1 + 4 + 3
    assert all(line.count('"') in (0, 2) for line in drawn)


@pytest.mark.parametrize("name", ["", " x", "x ", "a\nb", "a\tb", "a\x00b", "\u202eevil", "a\u200bb"])
def test_what_cannot_be_seen_is_no_name(project: Findings, name: str) -> None:
    text = f"project: {{name: p}}\nsources: [{{name: {json.dumps(name)}, topic: t}}]\n"
    assert codes(errors(project(text))) in (["invalid-value"], ["yaml-syntax"])


@pytest.mark.parametrize("name", ["null", "5", "true", "[a]", "{a: b}", "~"])
def test_what_is_no_text_is_no_name(project: Findings, name: str) -> None:
    assert codes(project(f"project: {{name: p}}\nsources: [{{name: {name}, topic: t}}]\n")) == ["wrong-type"]


@pytest.mark.parametrize("name", ["a b", "ä", "x" * 250, "a/b", "..", "a'b"])
def test_a_model_whose_name_cannot_be_a_topic_is_told_to_name_one(project: Findings, name: str) -> None:
    text = "project: {name: p}\nsources: [{name: s, topic: t, columns: [{name: id}]}]\n"
    text += f"models: [{{name: {json.dumps(name)}, "
    found = only(project(text + "sql: 'SELECT id FROM {{ source(\"s\") }}'}]\n"))
    assert (found.code, found.path) == ("invalid-value", f"models.{name}.name")


@pytest.mark.parametrize("topic", ["a b", "ä", "x" * 250, "a/b", "../../etc"])
def test_a_source_whose_topic_cannot_be_one_is_refused(project: Findings, topic: str) -> None:
    found = only(project(f"project: {{name: p}}\nsources: [{{name: s, topic: {json.dumps(topic)}}}]\n"))
    assert (found.code, found.path) == ("invalid-value", "sources.s.topic")


def test_a_source_with_columns_whose_topic_cannot_be_one_is_refused(project: Findings) -> None:
    found = only(project("project: {name: p}\nsources: [{name: s, topic: '../x', columns: [{name: id}]}]\n"))
    assert (found.code, found.path) == ("invalid-value", "sources.s.topic")


COLUMNS = ["a b", "a`b", "a'b", "select", "x`, `y", "ключ", "a.b", "n" * 300, "x) FROM y --"]


@pytest.mark.parametrize("column", COLUMNS)
def test_no_column_leaves_its_quotes_in_the_sql(check: Check, column: str) -> None:
    text = json.dumps(
        {
            "project": {"name": "p"},
            "sources": [{"name": "s", "topic": "t", "columns": [{"name": column}, {"name": "id", "type": "INT"}]}],
            "models": [
                {
                    "name": "m",
                    "sql": "SELECT * FROM {{ source('s') }}",
                    "security": {"masking": [{"column": column, "policy": "redact"}]},
                }
            ],
        }
    )
    graph, found = check({MAIN: text})
    assert errors(found) == []
    assert graph is not None
    tree = parse_one(compile(graph).queries[0].steps[0].sql, read="spark")
    assert isinstance(tree, exp.Select)
    assert [e.alias_or_name for e in tree.selects] == [column, "id"]


# Names that are there already


@pytest.mark.parametrize(
    ("section", "element"),
    [
        ("sources", "{{name: {}, topic: t{}}}"),
        ("models", "{{name: {}, owner: o{}}}"),
        ("tests", "{{name: {}, model: s, type: schema, owner: o{}}}"),
        ("exposures", "{{name: {}, owner: o{}}}"),
    ],
)
@pytest.mark.parametrize("names", [("x", "x"), ("x", "X"), ("ß", "SS")])
def test_two_elements_of_one_kind_cannot_share_a_name(
    project: Findings, section: str, element: str, names: tuple[str, str]
) -> None:
    listed = ", ".join(element.format(name, position) for position, name in enumerate(names))
    other = "" if section == "sources" else "sources: [{name: s, topic: s}]\n"
    found = only(
        [d for d in project(f"project: {{name: p}}\n{other}{section}: [{listed}]\n") if d.code == "duplicate-name"]
    )
    assert found.params["name"] == names[1]
    assert "is taken by stream_project.yml:" in found.message


def test_two_elements_of_two_files_cannot_share_a_name(check: Check) -> None:
    files = {
        MAIN: "project: {name: p}\n",
        "sources/a.yml": "sources: [{name: x, topic: a}]\n",
        "sources/b/c.yaml": "sources: [{name: x, topic: b}]\n",
    }
    found = only(check(files)[1])
    assert (found.code, found.origin and found.origin.file) == ("duplicate-name", "sources/b/c.yaml")
    assert "sources/a.yml:1:11" in found.message


def test_elements_of_different_kinds_may_share_a_name(check: Check) -> None:
    graph = sound(check, "same")
    assert [node.name for node in graph.nodes.values()].count("same") == 3
    named = graph.find_node("same")
    assert named is not None
    assert named.id == "model.same"


# Files


def test_a_file_of_five_megabytes_is_read(check: Check) -> None:
    lines = [f"  - {{name: s{n}, topic: t{n}, description: {'x' * 1000}}}" for n in range(300)]
    text = "project: {name: p}\nsources:\n" + "\n".join(lines) + "\n"
    text += "  - name: long\n    topic: long\n    description: |\n" + ("      " + "word " * 199 + "\n") * 4700
    assert len(text) > 5_000_000
    graph, found = check({MAIN: text.encode()})
    assert found == ()
    assert graph is not None
    assert len(graph.nodes) == 301


def test_a_mistake_at_the_end_of_a_large_file_is_found_there(check: Check) -> None:
    text = "project: {name: p}\n" + "# note\n" * 200_000 + "sources: [{name: s, topc: t, topic: t}]\n"
    found = only(check({MAIN: text.encode()})[1])
    assert (found.code, found.origin and found.origin.line) == ("unknown-field", 200_002)


def test_an_alias_of_itself_is_refused(project: Findings) -> None:
    assert "yaml-alias" in codes(project("project: {name: p}\nvars: &a {b: *a}\n"))


def test_a_few_aliases_are_fine(project: Findings) -> None:
    assert (
        project("project: {name: p}\nsources: [{name: a, topic: t, tags: &t [x]}, {name: b, topic: u, tags: *t}]\n")
        == ()
    )


@pytest.mark.parametrize("text", ["[" * 2_000 + "]" * 2_000, "{a: " * 2_000, "- " * 2_000 + "x"], ids=["[", "{", "-"])
def test_what_is_nested_without_end_is_refused(check: Check, text: str) -> None:
    assert codes(check({MAIN: text.encode()})[1]) == ["yaml-syntax"]


def test_what_is_nested_without_any_end_does_not_kill_the_process() -> None:
    code = "from penstock.project.yaml.read import parse_yaml; print(parse_yaml('[' * 100_000, 'x')[1][0].code)"
    no_core = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
    done = subprocess.run([sys.executable, "-c", no_core + code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "yaml-syntax\n")


def test_sql_that_is_nested_without_end_is_refused(project: Findings) -> None:
    sql = "SELECT " + "(" * 3000 + "id" + ")" * 3000 + " AS id FROM {{ source('s') }}"
    text = f"project: {{name: p}}\nsources: [{{name: s, topic: t}}]\nmodels: [{{name: m, sql: {json.dumps(sql)}}}]\n"
    assert codes(project(text)) == ["sql-syntax"]


@pytest.mark.parametrize(
    ("tag", "value"),
    [
        ("!!python/object/apply:os.system ['true']", ["true"]),
        ("!!python/name:os.system x", "x"),
        ("!!python/object:os.PathLike {a: b}", {"a": "b"}),
        ("!!binary aGk=", "aGk="),
        ("!own x", "x"),
    ],
)
def test_a_tag_makes_nothing_of_what_stands_behind_it(tmp_path: Path, tag: str, value: object) -> None:
    file = tmp_path / MAIN
    file.write_text(f"project: {{name: p, description: {tag}}}\n", encoding="utf-8")
    document, found = read_document(file, MAIN)
    assert found == []
    assert document is not None
    assert document.value == {"project": {"name": "p", "description": value}}


def test_a_list_with_a_tag_is_no_text(project: Findings) -> None:
    found = only(project("project: {name: p, description: !!python/object/apply:os.system ['true']}\n"))
    assert (found.code, found.path) == ("wrong-type", "project.description")


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"# only a note\n", b"---\n", b"null\n", b"[]\n", b"5\n", b"\xff\xfe", b"\x00"]
)
def test_a_main_file_that_says_nothing_is_refused(check: Check, content: bytes) -> None:
    graph, found = check({MAIN: content})
    assert graph is None
    assert len(errors(found)) == 1


def test_several_documents_in_one_file_are_refused(project: Findings) -> None:
    assert codes(project("project: {name: p}\n---\nproject: {name: q}\n")) == ["yaml-syntax"]


@pytest.mark.parametrize(
    "value",
    [
        *(-1, 0, 1.5, "x", None, [], {}, True),
    ],
)
def test_no_number_of_partitions_that_is_none_is_taken(project: Findings, value: object) -> None:
    text = yaml.safe_dump({"project": {"name": "p"}, "defaults": {"topic": {"partitions": value}}})
    found = errors(project(text))
    assert found == [] if value is None else len(found) == 1


def test_an_exposure_and_a_test_that_point_to_nothing_are_refused(project: Findings) -> None:
    text = (
        "project: {name: p}\nexposures: [{name: e, consumes: [gone]}]\ntests: [{name: t, model: gone, type: schema}]\n"
    )
    assert codes(project(text)) == ["unknown-model", "unknown-model"]


def test_odd_places_of_yaml_are_told_with_a_remedy(project: Findings, pipeline: Findings) -> None:
    head = "project: {name: p}\n"
    second = only(project(f"{head}---\n{head}"))
    assert (second.code, second.hint) == ("yaml-syntax", "put it into a file of its own, or remove `---`")
    alias = only(project(f"{head}sources: [*none]\n"))
    assert (alias.code, alias.message) == ("yaml-syntax", "this alias has no anchor before it")
    for base in ("5", "[1]", "text"):
        merge = only(project(f"{head}sources: [{{<<: {base}, name: s, topic: t}}]\n"))
        assert (merge.code, merge.hint) == ("wrong-shape", "name one: <<: *anchor")
    file = 'sources: {s: {type: file, path: "in\\0", format: json, schema: {id: long}}}\n'
    path = only(errors(pipeline(f"{file}transforms: {{}}\nsinks: {{o: {{type: print, from: s}}}}\n")))
    assert (path.code, path.path) == ("invalid-value", "sources.s.path")
