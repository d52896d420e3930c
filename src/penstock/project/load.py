"""load: a path -> Documents. Finds the files of a project or pipeline and reads them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from penstock.errors import Diagnostic, Origin
from penstock.project.documents import Document, read

Format: TypeAlias = Literal["project", "pipeline"]

PROJECT_FILES: Final = ("stream_project.yml", "stream_project.yaml")
ELEMENT_DIRECTORIES: Final = ("sources", "models", "exposures")
_SUFFIXES: Final = (".yml", ".yaml", ".json")


@dataclass(frozen=True, slots=True)
class Documents:
    """The files of one project or pipeline. `root` is the directory that relative paths start from."""

    root: Path
    format: Format
    name: str
    files: tuple[Document, ...]


def load(path: Path) -> tuple[Documents | None, list[Diagnostic]]:
    if path.is_dir():
        return _load_project(path)
    if path.is_file() and path.name in PROJECT_FILES:
        return _load_project(path.parent)
    if path.is_file():
        document, diagnostics = read(path, _shown(path))
        files = (document,) if document else ()
        return Documents(path.resolve().parent, "pipeline", path.stem, files), diagnostics
    hint = "give the directory of a project, or the file of a pipeline"
    return None, [
        Diagnostic("project-not-found", "there is no such file or directory", Origin(_shown(path)), hint=hint)
    ]


def _load_project(root: Path) -> tuple[Documents | None, list[Diagnostic]]:
    main = next((root / name for name in PROJECT_FILES if (root / name).is_file()), None)
    if main is None:
        hint = "run `penstock init NAME` to start one, or give the file of a pipeline"
        text = f"no {PROJECT_FILES[0]} in this directory"
        return None, [Diagnostic("project-not-found", text, Origin(_shown(root)), hint=hint)]
    paths = [main]
    for directory in ELEMENT_DIRECTORIES:
        found = (p for p in (root / directory).rglob("*") if p.suffix in _SUFFIXES and p.is_file())
        paths.extend(sorted(found))
    files: list[Document] = []
    diagnostics: list[Diagnostic] = []
    for path in paths:
        document, notes = read(path, _shown(path))
        diagnostics.extend(notes)
        if document is not None:
            files.append(document)
    if not files or files[0].file != _shown(main):
        return None, diagnostics
    return Documents(root.resolve(), "project", root.resolve().name, tuple(files)), diagnostics


def _shown(path: Path) -> str:
    """The path as a person would type it from here."""
    absolute, here = path.resolve(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)
