"""What `compile` writes: files, their names, and what it leaves alone."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.errors import PenstockError
from penstock.manifest.artifacts import INDEX, MANIFEST, artifacts, file_name, written_files
from tests.support import only, write
from tests.unit.conftest import MAIN, Compile, Findings

PROJECT = """
    project: {name: p, version: "1"}
    runtime: {conduktor: {gateway: {admin_url: x}}}
    sources:
      - name: s
        topic: s.v1
        schema: {definition: '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'}
    models:
      - {name: seen, sql: 'SELECT * FROM {{ source("s") }} WHERE id > 1'}
      - {name: counted, sql: 'SELECT DISTINCT id FROM {{ source("s") }}', advanced: {topic: {name: counted.v1}}}
      - {name: out, from: counted, sink: {connector: jdbc-sink, config: {password: plain-secret, a: "${NAME:-x}"}}}
"""


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["compile", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def files(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, {MAIN: PROJECT})
    return tmp_path / "generated"


EXPECTED = {
    "manifest.json",
    "files.json",
    "topics/counted.v1.json",
    "spark/counted.sql",
    "spark/counted.json",
    "connect/out.json",
    "gateway/seen.json",
    "schemas/s.v1-value.json",
}


def test_everything_that_is_wanted_has_a_file(folder: Path) -> None:
    call()
    assert files(folder) == EXPECTED
    assert set(json.loads((folder / INDEX).read_text())) == EXPECTED


def test_the_files_say_what_is_wanted(folder: Path) -> None:
    call()
    read = {name: json.loads((folder / name).read_text()) for name in EXPECTED if name.endswith(".json")}
    assert read["topics/counted.v1.json"]["name"] == "counted.v1"
    assert read["gateway/seen.json"]["virtualTopic"] == "seen"
    assert read["gateway/seen.json"]["physicalTopic"] == "s.v1"
    assert read["gateway/seen.json"]["interceptors"] == [{"type": "filter", "config": {"where": "id > 1"}}]
    assert read["schemas/s.v1-value.json"]["schema_type"] == "AVRO"
    assert read["schemas/s.v1-value.json"]["schema"]["name"] == "r"
    config = read["connect/out.json"]["config"]
    assert config["connector.class"] == "io.confluent.connect.jdbc.JdbcSinkConnector"
    assert (config["topics"], config["a"]) == ("counted.v1", "${NAME:-x}")
    script = " ".join((folder / "spark/counted.sql").read_text().split())
    assert "SELECT `s`.`id` AS `_k0`, UNIX_MILLIS(PENSTOCK_NOW()) AS `_now` FROM `source.s` AS `s`" in script
    assert "-- reads source.s" in script


def test_a_secret_that_was_written_out_is_in_no_file(folder: Path) -> None:
    call()
    assert all("plain-secret" not in (folder / name).read_text() for name in EXPECTED)


def test_equal_input_gives_equal_bytes_wherever_it_stands(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two/deeper"):
        write(tmp_path / name, {MAIN: PROJECT})
        call("-p", str(tmp_path / name))
        folder = tmp_path / name / "generated"
        found.append({file: (folder / file).read_bytes() for file in files(folder)})
    assert found[0] == found[1]


def test_compiling_again_changes_nothing(folder: Path) -> None:
    call()
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    call()
    assert {name: (folder / name).read_bytes() for name in files(folder)} == before


def test_a_dry_run_writes_nothing_at_all(folder: Path, tmp_path: Path) -> None:
    text = call("--dry-run")
    assert "Would write" in text
    assert "  - counted (spark: the SQL keeps state: SELECT DISTINCT)" in text
    assert files(tmp_path) == {MAIN}
    assert not folder.exists()


def test_json_is_the_manifest(folder: Path) -> None:
    text = call("--format", "json")
    assert json.loads(text) == json.loads((folder / MANIFEST).read_text())


def test_another_directory_can_be_named(tmp_path: Path, folder: Path) -> None:
    call("-o", str(tmp_path / "elsewhere"))
    assert files(tmp_path / "elsewhere") == EXPECTED
    assert not folder.exists()


# What is left alone


def test_files_that_are_no_longer_wanted_go(folder: Path, tmp_path: Path) -> None:
    call()
    write(tmp_path, {MAIN: "project: {name: p}\n"})
    call()
    assert files(folder) == {"manifest.json", "files.json"}


def test_files_of_others_stay(folder: Path, tmp_path: Path) -> None:
    mine = {"notes.md": "x", "spark/mine.sql": "x", "topics/mine.json": "{}", "other/x.json": "{}"}
    write(folder, mine)
    call()
    write(tmp_path, {MAIN: "project: {name: p}\n"})
    call()
    assert files(folder) == {"manifest.json", "files.json", *mine}


@pytest.mark.parametrize(
    "name",
    [
        "../keep.json",
        "topics/../../keep.json",
        "/etc/keep",
        "topics/x/keep.json",
        "keep.json",
        "other/keep.json",
        "topics/..",
        "",
    ],
)
def test_no_index_makes_it_remove_what_is_not_its_own(folder: Path, tmp_path: Path, name: str) -> None:
    write(tmp_path, {"keep.json": "{}", "generated/keep.json": "{}", "generated/topics/x/keep.json": "{}"})
    write(tmp_path, {"generated/other/keep.json": "{}"})
    (folder / INDEX).write_text(json.dumps([name, 5, None, [name]]))
    call()
    kept = {"keep.json", "generated/keep.json", "generated/topics/x/keep.json", "generated/other/keep.json"}
    assert kept <= files(tmp_path)


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "5", "null", '{"a": 1}', "[["])
def test_an_index_that_cannot_be_read_removes_nothing(folder: Path, text: str) -> None:
    write(folder, {"topics/old.json": "{}"})
    (folder / INDEX).write_text(text)
    assert written_files(folder) == set()
    call()
    assert "topics/old.json" in files(folder)


def test_a_directory_in_the_index_is_not_removed_either(folder: Path) -> None:
    write(folder, {INDEX: '["topics/"]'})
    call()
    assert files(folder) >= EXPECTED


def test_a_place_that_cannot_be_written_is_an_error_with_its_name(folder: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(PenstockError) as caught:
        call()
    assert caught.value.code == "not-writable"
    assert str(folder) in caught.value.message


# Names of files


@pytest.mark.parametrize(
    ("name", "expected"),
    [("orders", "orders"), ("orders.v1", "orders.v1"), ("a b", "a b"), ("a_b-c", "a_b-c"), (".hidden", "%2Ehidden")],
)
def test_a_plain_name_is_that_of_its_file(name: str, expected: str) -> None:
    assert file_name(name).partition("-")[0] == expected.partition("-")[0]


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "a\\b", "..", ".", "\x00", "a\nb", "ä" * 200, "x" * 300, "CON", "a:b", "'\"<>|*?"]
)
def test_no_name_leaves_its_directory_or_is_too_long(name: str) -> None:
    found = file_name(name)
    assert not set(found) & set('/\\\x00\n:*?"<>|')
    assert found not in (".", "..")
    assert not found.startswith(".")
    assert len(found.encode()) <= 200


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("orders", "Orders"),
        ("a/b", "a%2Fb"),
        ("x" * 150, "x" * 151),
        ("é", "e\u0301"),
        (".a", "%2Ea"),
        ("A", file_name("A")),
        ("x" * 150, file_name("x" * 150)),
    ],
)
def test_two_names_never_have_one_file_whatever_the_file_system(one: str, other: str) -> None:
    assert file_name(one).casefold() != file_name(other).casefold()


def test_models_that_differ_in_signs_only_have_files_of_their_own(project_manifest: Compile) -> None:
    names = ["a b", "a_b", "a-b", "a.b", "a'b", 'a\\"b']
    models = "\n".join(
        f'  - {{name: "{name}", sql: \'SELECT id FROM {{{{ source("s") }}}}\', advanced: {{topic: {{name: t{i}}}}}}}'
        for i, name in enumerate(names)
    )
    manifest = project_manifest(f"project: {{name: p}}\nsources: [{{name: s, topic: t}}]\nmodels:\n{models}\n")
    assert sum(name.startswith("spark/") and name.endswith(".sql") for name in artifacts(manifest)) == len(names)


def test_the_manifest_is_the_last_file(project_manifest: Compile) -> None:
    """Who sees it knows that everything it speaks of is there."""
    assert list(artifacts(project_manifest(PROJECT)))[-1] == MANIFEST


def test_two_schemas_of_one_subject_are_refused(project: Findings) -> None:
    schema = 'schema: {subject: x, definition: \'{"type": "record", "name": "NAME", "fields": []}\'}'
    sources = ", ".join(f"{{name: {n}, topic: {n}, {schema.replace('NAME', n)}}}" for n in "ab")
    found = only(project(f"project: {{name: p}}\nsources: [{sources}]\n"))
    assert (found.code, found.params) == ("duplicate-name", {"name": "x"})
