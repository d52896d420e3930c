"""Resolves `${NAME}` and `${NAME:-default}` in documents."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from penstock.errors import Diagnostic, Origin, ProjectInvalid
from penstock.project.yaml.documents import PathStep

Environ: TypeAlias = Mapping[str, str]
REFERENCE: Final = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class UnsetVariable:
    """A reference to an unset variable; `path` leads to the text that contains it."""

    name: str
    path: tuple[PathStep, ...]


def load_environ(root: Path, environment: str | None, real: Environ) -> Environ:
    """The variables of a project: `.env`, then `.env.<environment>`, then the real environment, which overrides
    both."""
    files = [root / ".env", *([root / f".env.{environment}"] if environment else [])]
    merged: dict[str, str] = {}
    for file in files:
        if file.is_file():
            from dotenv import dotenv_values

            try:
                values = dotenv_values(file)
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                unreadable = Diagnostic("file-unreadable", f"cannot be read: {reason}", Origin(str(file)))
                raise ProjectInvalid([unreadable]) from error
            merged.update({name: value for name, value in values.items() if value is not None})
    return {**merged, **real}


def substitute_variables(text: str, environ: Environ, missing: Callable[[str], None]) -> str:
    """A text with its references resolved. A reference to an unset variable stays. `$${` is a literal `${`."""

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        if (given := environ.get(found[2])) is not None and (given or found[3] is None):
            return given
        if found[3] is not None:
            return found[3]
        missing(found[2])
        return found[0]

    return REFERENCE.sub(value, text)


def unset_hint(name: str) -> str:
    """The hint for a variable that is not set."""
    return f"set it, put it into `.env`, or give a default: `${{{name}:-default}}`"


def never(_: tuple[PathStep, ...]) -> bool:
    return False


def resolve_variables(
    raw: Any, environ: Environ, later: Callable[[tuple[PathStep, ...]], bool] = never
) -> tuple[Any, list[UnsetVariable]]:
    """A value with the references in its texts resolved, except at the paths in `later`."""
    unset: list[UnsetVariable] = []

    def walk(value: Any, path: tuple[PathStep, ...]) -> Any:
        match value:
            case str() if "${" in value and not later(path):
                return substitute_variables(value, environ, lambda name: unset.append(UnsetVariable(name, path)))
            case dict():
                return {key: walk(inner, (*path, key)) for key, inner in value.items()}
            case list():
                return [walk(inner, (*path, position)) for position, inner in enumerate(value)]
            case _:
                return value

    return walk(raw, ()), unset


def find_references(raw: Any, path: tuple[PathStep, ...] = ()) -> Iterator[tuple[str, bool, tuple[PathStep, ...]]]:
    """Every variable that a value refers to, whether it has a default, and the path of its text."""
    match raw:
        case str() if "${" in raw:
            yield from ((m[2], m[3] is not None, path) for m in REFERENCE.finditer(raw) if m[2])
        case dict():
            for key, inner in raw.items():
                yield from find_references(inner, (*path, key))
        case list() | tuple():
            for position, inner in enumerate(raw):
                yield from find_references(inner, (*path, position))
        case _:
            pass
