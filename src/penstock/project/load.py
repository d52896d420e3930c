"""load: a path -> Documents. Finds the files of a project or pipeline and reads them."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.project.application_settings import read_settings, settings_file
from penstock.project.functions.modules import PythonFile, function_files
from penstock.project.yaml.documents import Document, TextFile
from penstock.project.yaml.read import read_document, read_text_file
from penstock.project.yaml.variables import Environ, load_environ
from penstock.settings import Settings

ProjectFormat: TypeAlias = Literal["project", "pipeline"]

PROJECT_FILES: Final = ("stream_project.yml", "stream_project.yaml")
ELEMENT_DIRECTORIES: Final = ("sources", "models", "tests", "exposures")
_SUFFIXES: Final = (".yml", ".yaml", ".json")
_ENVIRONMENT_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]*")
_VARIABLES: Final = ("PENSTOCK_ENV", "STREAMT_ENV")


@dataclass(frozen=True, slots=True)
class Documents:
    """The files of one project or pipeline. `root` is the directory that relative paths start from.

    `environment` is the chosen file of `environments/`, if any; `environ` has the variables for `${NAME}`, and
    `settings` those of the application. `functions` are the Python files of `functions/`.
    """

    root: Path
    format: ProjectFormat
    name: str
    files: tuple[Document, ...]
    sql: tuple[TextFile, ...] = ()
    macros: tuple[TextFile, ...] = ()
    environment: tuple[str, Document] | None = None
    environ: Environ = field(default_factory=lambda: MappingProxyType({}))
    settings: Settings = field(default_factory=Settings, repr=False)
    functions: tuple[PythonFile, ...] = ()


def is_pipeline(path: Path) -> bool:
    """Whether the path is the file of a pipeline and not a project."""
    return path.is_file() and path.name not in PROJECT_FILES


def is_project(path: Path) -> bool:
    """Whether the path is a project: its directory or its file."""
    return path.name in PROJECT_FILES or any((path / name).is_file() for name in PROJECT_FILES)


def load(
    path: Path,
    env: str | None = None,
    *,
    real: Mapping[str, str] = os.environ,
    any_environment: bool = False,
    config: Path | None = None,
) -> tuple[Documents | None, list[Diagnostic]]:
    """With `any_environment`, a project with several environments can be read without choosing one.

    `config` names a file of settings. If it is absent, a pipeline uses the settings file and the `.env` next to it, or
    in the current directory.
    """
    if path.is_dir():
        return _load_project(path, env, real, any_environment, config)
    if path.is_file() and not is_pipeline(path):
        return _load_project(path.parent, env, real, any_environment, config)
    if path.is_file():
        document, diagnostics = read_document(path, _display_path(path))
        if env is not None:
            diagnostics.append(_no_environments(path))
        files = (document,) if document else ()
        root = path.resolve().parent
        environ = load_environ(root if (root / ".env").is_file() else Path(), None, real)
        settings, notes = _load_settings(settings_file(config, root, Path()), environ)
        functions, wrong = _load_functions(path.parent)
        diagnostics += [*notes, *wrong]
        found = Documents(root, "pipeline", path.stem, files, environ=environ, settings=settings, functions=functions)
        return found, diagnostics
    hint = "give the directory of a project, or the file of a pipeline"
    return None, [_diagnostic("project-not-found", "there is no such file or directory", path, hint)]


def _load_settings(file: Path | None, environ: Environ) -> tuple[Settings, list[Diagnostic]]:
    return read_settings(file, environ, _display_path(file) if file is not None else "")


def _load_project(
    root: Path, env: str | None, real: Mapping[str, str], any_environment: bool, config: Path | None
) -> tuple[Documents | None, list[Diagnostic]]:
    main = next((root / name for name in PROJECT_FILES if (root / name).is_file()), None)
    if main is None:
        hint = "run `penstock init NAME` to start one, or give the file of a pipeline"
        return None, [_diagnostic("project-not-found", f"no {PROJECT_FILES[0]} in this directory", root, hint)]
    files: list[Document] = []
    diagnostics: list[Diagnostic] = []
    for path in [main, *_find_files(root, ELEMENT_DIRECTORIES, _SUFFIXES)]:
        document, notes = read_document(path, _display_path(path))
        diagnostics.extend(notes)
        if document is not None:
            files.append(document)
    texts: dict[str, list[TextFile]] = {}
    for directory in ("models", "macros"):
        texts[directory] = []
        for path in _find_files(root, (directory,), (".sql",)):
            file, notes = read_text_file(path, _display_path(path))
            diagnostics.extend(notes)
            texts[directory].extend([file] if file else [])
    chosen, notes = _load_environment(root, env, real, any_environment)
    diagnostics.extend(notes)
    if not files or files[0].file != _display_path(main):
        return None, diagnostics
    environ = load_environ(root, chosen[0] if chosen else None, real)
    settings, notes = _load_settings(settings_file(config), environ)
    diagnostics.extend(note for note in notes if note.severity is Severity.ERROR)
    functions, notes = _load_functions(root)
    diagnostics.extend(notes)
    root, sql, macros = root.resolve(), tuple(texts["models"]), tuple(texts["macros"])
    parts = (tuple(files), sql, macros, chosen, environ, settings, functions)
    return Documents(root, "project", root.name, *parts), diagnostics


def _load_functions(root: Path) -> tuple[tuple[PythonFile, ...], list[Diagnostic]]:
    found: list[PythonFile] = []
    diagnostics: list[Diagnostic] = []
    for path in function_files(root):
        file, notes = read_text_file(path, _display_path(path))
        diagnostics.extend(notes)
        found.extend([PythonFile(path.relative_to(root).as_posix(), file.file, file.text)] if file else [])
    return tuple(found), diagnostics


def _is_there(path: Path) -> bool:
    """Whether there is a file or a broken link, which reading then reports."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _find_files(root: Path, directories: tuple[str, ...], suffixes: tuple[str, ...]) -> Iterator[Path]:
    """The files of a kind in the directories, at any depth, in a stable order, without hidden ones."""
    for directory in directories:
        found = (p for p in (root / directory).rglob("*") if p.suffix in suffixes and _is_there(p))
        yield from sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(root).parts))


# Environments


def environment_files(root: Path) -> dict[str, Path]:
    """The environments of a project by name."""
    folder = root / "environments"
    found = sorted(p for p in folder.glob("[!.]*") if p.suffix in (".yml", ".yaml") and p.is_file())
    return {path.stem: path for path in found}


def _load_environment(
    root: Path, env: str | None, real: Mapping[str, str], any_environment: bool
) -> tuple[tuple[str, Document] | None, list[Diagnostic]]:
    named = env or next((real[name] for name in _VARIABLES if real.get(name)), None)
    folder = root / "environments"
    if folder.is_symlink() and not folder.exists():
        origin = Origin(_display_path(root) + "/environments")
        return None, [Diagnostic("file-unreadable", "this is a broken symbolic link", origin)]
    if not folder.is_dir():
        if env is not None:
            return None, [_no_environments(folder)]
        text = f"`{named}` is set by an environment variable, but the project has no environments"
        note = _diagnostic("no-effect", text, folder, severity=Severity.INFO, name=named or "")
        return None, [note] if named else []
    files = environment_files(root)
    if not files:
        hint = "add one such as environments/dev.yml, or remove the directory"
        return None, [_diagnostic("environment-unknown", "this directory has no environment file", folder, hint)]
    if named is None and len(files) > 1:
        if any_environment:
            return None, []
        text, hint = "the project has several environments", f"choose one with --env: {', '.join(files)}"
        return None, [_diagnostic("environment-needed", text, folder, hint)]
    chosen = next(iter(files)) if named is None else named
    if chosen not in files:
        text, near = f"there is no environment `{chosen}`", did_you_mean(chosen, files)
        return None, [_diagnostic("environment-unknown", text, folder, near, name=chosen)]
    if not _ENVIRONMENT_NAME.fullmatch(chosen):
        text, hint = f"`{chosen}` is not a valid environment name", "use letters, digits, `-` and `_`"
        return None, [_diagnostic("invalid-value", text, files[chosen], hint)]
    both = [p for p in (folder / f"{chosen}.yml", folder / f"{chosen}.yaml") if p.is_file()]
    if len(both) > 1:
        text = f"the environment `{chosen}` has two files: {both[0].name} and {both[1].name}"
        return None, [_diagnostic("given-twice", text, folder, "keep one of the two")]
    document, diagnostics = read_document(files[chosen], _display_path(files[chosen]))
    return ((chosen, document) if document else None), diagnostics


def _no_environments(place: Path) -> Diagnostic:
    text, hint = "there are no environments to choose from", "leave --env out, or add environments/<name>.yml"
    return _diagnostic("environment-unknown", text, place, hint)


def _diagnostic(
    code: str, text: str, path: Path, hint: str | None = None, *, severity: Severity = Severity.ERROR, **params: str
) -> Diagnostic:
    """A diagnostic about a whole file or directory."""
    return Diagnostic(code, text, Origin(_display_path(path)), hint=hint, severity=severity, params=params)


def _display_path(path: Path) -> str:
    """The path as a person would type it from here."""
    absolute, here = path.resolve(), Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)
