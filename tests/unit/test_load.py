from pathlib import Path

import pytest

from penstock.errors import Origin
from penstock.project.load import load
from tests.support import codes, only, write
from tests.unit.conftest import MAIN, Check


def names(path: Path) -> list[str]:
    documents, diagnostics = load(path)
    assert documents is not None
    assert not diagnostics
    return [document.file for document in documents.files]


def test_a_directory_is_a_project_and_a_file_is_a_pipeline(tmp_path: Path) -> None:
    write(tmp_path, {MAIN: "project: {name: p}\n", "feed.yml": "sources: {}\n"})
    project, _ = load(tmp_path)
    pipeline, _ = load(tmp_path / "feed.yml")
    assert project is not None
    assert pipeline is not None
    assert (project.format, project.root) == ("project", tmp_path)
    assert (pipeline.format, pipeline.root, pipeline.name) == ("pipeline", tmp_path, "feed")


@pytest.mark.parametrize("name", ["stream_project.yml", "stream_project.yaml"])
def test_the_project_file_itself_can_be_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: "project: {name: p}\n", "models/m.yml": "models: []\n"})
    assert names(tmp_path / name) == [name, "models/m.yml"]


def test_files_are_read_in_a_fixed_order_whatever_their_suffix_and_depth(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "models/z.yml": "models: []\n",
            "models/staging/deep/a.yaml": "models: []\n",
            "exposures/e.json": "{}\n",
            "sources/s.yml": "sources: []\n",
            "sources/notes.txt": "not: [yaml\n",
            "elsewhere/x.yml": "not: [yaml\n",
            MAIN: "project: {name: p}\n",
        },
    )
    expected = [MAIN, "sources/s.yml", "models/staging/deep/a.yaml", "models/z.yml", "exposures/e.json"]
    assert names(tmp_path) == expected


def test_a_directory_without_a_project_is_reported(check: Check) -> None:
    found = only(check({"models/m.yml": "models: []\n"})[1])
    assert found.code == "project-not-found"
    assert found.origin is not None
    assert found.origin.file == "."
    assert found.hint is not None
    assert "penstock init" in found.hint


def test_a_path_that_is_not_there_is_reported(check: Check) -> None:
    found = only(check({}, "nowhere.yml")[1])
    assert found.code == "project-not-found"
    assert found.origin == Origin("nowhere.yml")
    assert found.hint is not None


def test_every_broken_file_is_reported_not_only_the_first(check: Check) -> None:
    files = {
        MAIN: "project: {name: p, name: q}\n",
        "sources/a.yml": "sources: [\n",
        "sources/b.yml": "",
        "models/c.yml": b"\xff",
    }
    found = check(files)[1]
    assert {d.origin.file: d.code for d in found if d.origin} == {
        "models/c.yml": "file-unreadable",
        "sources/a.yml": "yaml-syntax",
        "sources/b.yml": "file-empty",
        MAIN: "yaml-duplicate-key",
    }


@pytest.mark.parametrize("main", ["", "project: [\n"], ids=["empty", "not YAML"])
def test_a_broken_project_file_is_not_replaced_by_another_file(check: Check, main: str) -> None:
    found = check({MAIN: main, "sources/s.yml": "sources: []\n"})[1]
    assert {d.origin.file for d in found if d.origin} == {MAIN}


def test_places_are_shown_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {f"shop/{MAIN}": ""})
    (tmp_path / "elsewhere").mkdir()
    assert only(load(tmp_path / "shop")[1]).origin == Origin(f"shop/{MAIN}")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert only(load(tmp_path / "shop")[1]).origin == Origin(str(tmp_path / "shop" / MAIN))


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "hello\n", "project: [a\n", "project:\n\tname: x\n"])
@pytest.mark.parametrize("entry", [MAIN, "pipeline.yml"])
def test_a_file_that_is_no_document_gives_one_error_with_a_place_and_a_hint(
    check: Check, text: str, entry: str
) -> None:
    graph, found = check({entry: text}, entry)
    assert graph is None
    assert codes(found) == [only(found).code]
    assert only(found).origin is not None
    assert only(found).hint
