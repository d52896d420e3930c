"""Fixtures of the tests without Spark: every test works in a directory of its own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from penstock.errors import Diagnostic
from penstock.graph.graph import Graph
from penstock.manifest.compile import compile
from penstock.manifest.model import Manifest
from tests.support import check_text, link_text

Files: TypeAlias = Mapping[str, str | bytes]
Check: TypeAlias = Callable[..., tuple[Graph | None, tuple[Diagnostic, ...]]]
Findings: TypeAlias = Callable[[str], tuple[Diagnostic, ...]]
Link: TypeAlias = Callable[[str], Graph]
Compile: TypeAlias = Callable[[str], Manifest]

MAIN = "stream_project.yml"
PIPELINE = "pipeline.yml"


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Write files, and see what `validate` finds in them."""

    def run(files: Files, entry: str = ".") -> tuple[Graph | None, tuple[Diagnostic, ...]]:
        return check_text(tmp_path, files, entry)

    return run


@pytest.fixture
def project(check: Check) -> Findings:
    """The diagnostics of a project in one file."""
    return lambda text: check({MAIN: text})[1]


@pytest.fixture
def pipeline(check: Check) -> Findings:
    """The diagnostics of a pipeline."""
    return lambda text: check({PIPELINE: text}, PIPELINE)[1]


@pytest.fixture
def project_graph(tmp_path: Path) -> Link:
    return lambda text: link_text(tmp_path, {MAIN: text})


@pytest.fixture
def pipeline_graph(tmp_path: Path) -> Link:
    return lambda text: link_text(tmp_path, {PIPELINE: text}, PIPELINE)


@pytest.fixture
def project_manifest(project_graph: Link) -> Compile:
    return lambda text: compile(project_graph(text))


@pytest.fixture
def pipeline_manifest(pipeline_graph: Link) -> Compile:
    return lambda text: compile(pipeline_graph(text))
