"""Renders SQL templates: the references of a text, and the text with node ids in place of `source("x")` and `ref("x")`.
Most SQL has only these two calls, so they are replaced here. Everything else goes to `project.templates.jinja`.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from penstock.errors import Diagnostic, nearest
from penstock.project.yaml.documents import TextFile
from penstock.project.yaml.secrets import SECRET_HINT, is_secret
from penstock.project.yaml.variables import REFERENCE, Environ, substitute_variables, unset_hint
from penstock.project.yaml.variables import find_references as variables_in
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.parse.query import Problem

if TYPE_CHECKING:
    from penstock.project.templates.jinja import Sandbox

MARK: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|\{\{|\{%|\{#", re.DOTALL)
_CALL: Final = re.compile(r"""\{\{-?\s*(source|ref)\s*\(\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\)\s*-?\}\}""", re.DOTALL)
_SIMPLE: Final = re.compile(f"{MARK.pattern}|{REFERENCE.pattern}", re.DOTALL)


ReferenceKind: TypeAlias = Literal["source", "model"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A call in the text; `offset` counts characters of the text as written."""

    kind: ReferenceKind
    name: str
    offset: int

    @property
    def id(self) -> str:
        return f"{self.kind}.{self.name}"


@dataclass(frozen=True, slots=True)
class Piece:
    """Rendered text from `start` on comes from `written` on. If it is not literal, all of it comes from that
    position."""

    start: int
    written: int
    literal: bool


@dataclass(frozen=True, slots=True)
class RenderedSql:
    """SQL with each call replaced by a quoted node id. `written` maps a position back to the text as written, which
    `problems` refer to."""

    sql: str
    references: tuple[Reference, ...] = ()
    problems: tuple[Problem, ...] = ()
    pieces: tuple[Piece, ...] = ()

    def written(self, offset: int) -> int:
        if not self.pieces:
            return 0
        piece = self.pieces[max(0, bisect_right(self.pieces, offset, key=lambda p: p.start) - 1)]
        return piece.written + (offset - piece.start if piece.literal else 0)


@dataclass
class Templates:
    """Renders the SQL of one project: with its macros, its variables, and the environment it runs in."""

    macros: tuple[TextFile, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    environ: Environ = field(default_factory=dict)
    environment: str | None = None

    @cached_property
    def _sandbox(self) -> "Sandbox":
        from penstock.project.templates.jinja import Sandbox

        return Sandbox(self.macros, self.variables, self.environ, self.environment)

    def render(self, text: str) -> RenderedSql:
        if all(_is_simple(mark[0]) for mark in MARK.finditer(text)):
            return _fill_calls(text, self.environ)
        return self._sandbox.render_sql(text)

    def mistakes(self) -> list[Diagnostic]:
        """The errors in the macros themselves."""
        return self._sandbox.mistakes if self.macros else []


def secret_problem(name: str, offset: int) -> Problem:
    text = f"`{name}` looks like a secret, and SQL is written into the manifest"
    return Problem("secret-exposed", text, offset, SECRET_HINT, name)


def unset_problem(name: str, environ: Environ, offset: int) -> Problem:
    close = nearest(name, environ)
    hint = unset_hint(name) + (f"; did you mean `{close}`?" if close else "")
    return Problem("unset-variable", f"the environment variable `{name}` is not set", offset, hint, name)


def _is_simple(mark: str) -> bool:
    comment = mark.startswith("{#") and mark.endswith("#}") and mark[2:3] != "-" and mark[-3:-2] != "-"
    return comment or _CALL.fullmatch(mark) is not None


def _fill_calls(text: str, environ: Environ) -> RenderedSql:
    """The text of a template that only calls `source` and `ref`."""
    parts: list[str] = []
    pieces: list[Piece] = []
    references: list[Reference] = []
    problems: list[Problem] = []
    length = position = 0

    def put(part: str, written: int, literal: bool) -> None:
        nonlocal length
        if part:
            pieces.append(Piece(length, written, literal))
            parts.append(part)
            length += len(part)

    for mark in _SIMPLE.finditer(text):
        start = mark.start()
        put(text[position:start], position, True)
        position = mark.end()
        if call := _CALL.fullmatch(mark[0]):
            kind: ReferenceKind = "source" if call[1] == "source" else "model"
            reference = Reference(kind, call[2] if call[2] is not None else call[3], start)
            references.append(reference)
            put(quote_spark_identifier(reference.id), start, False)
        elif mark[0].startswith("$"):
            missing: list[str] = []
            put(substitute_variables(mark[0], environ, missing.append), start, False)
            problems.extend(unset_problem(name, environ, start) for name in missing)
            problems.extend(
                secret_problem(name, start) for name, _, _ in variables_in(mark[0]) if is_secret(name, environ)
            )
    put(text[position:], position, True)
    return RenderedSql("".join(parts), tuple(references), tuple(problems), tuple(pieces))
