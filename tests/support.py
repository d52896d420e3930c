"""What tests of several rooms share: writing documents, walking the line without Spark, places in a text."""

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from textwrap import dedent

from penstock.errors import Diagnostic, Origin, ProjectInvalid, Severity
from penstock.graph.analysis_cache import AnalysisCache
from penstock.graph.external_schemas import discover_columns
from penstock.graph.graph import Graph
from penstock.graph.link import link
from penstock.project.load import load
from penstock.project.parse import parse
from penstock.workflow.stages import check


def plain(text: str) -> str:
    """An indented block of a test as the file it stands for: line 1 is the first line with content."""
    return dedent(text).lstrip("\n")


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else plain(content).encode())


def check_text(
    root: Path, files: Mapping[str, str | bytes], entry: str = "."
) -> tuple[Graph | None, tuple[Diagnostic, ...]]:
    """What `validate` finds: the graph, or None when there are errors; and every diagnostic, in its order."""
    write(root, files)
    try:
        checked = check(root / entry)
    except ProjectInvalid as invalid:
        return None, invalid.diagnostics
    return checked.graph, checked.notes


def link_text(root: Path, files: Mapping[str, str | bytes], entry: str = ".") -> Graph:
    """The graph as far as it goes, errors or not."""
    write(root, files)
    documents, _ = load(root / entry)
    assert documents is not None
    project, _ = parse(documents)
    assert project is not None
    return link(project, discover_columns(project, documents.root), AnalysisCache(), date.today())[0]


def spot(file: str, text: str, word: str, occurrence: int = 1) -> Origin:
    """Where a word stands in a file; words are counted from 1."""
    text = plain(text)
    at = -1
    for _ in range(occurrence):
        at = text.index(word, at + 1)
    return Origin(file, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def codes(diagnostics: Iterable[Diagnostic]) -> list[str]:
    return [d.code for d in diagnostics]


def errors(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [d for d in diagnostics if d.severity is Severity.ERROR]


def only(diagnostics: Iterable[Diagnostic], code: str | None = None) -> Diagnostic:
    """The one diagnostic there is, or the one with this code."""
    found = [d for d in diagnostics if code is None or d.code == code]
    assert len(found) == 1, "\n".join(str(d) for d in diagnostics)
    return found[0]
