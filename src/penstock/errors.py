"""Errors, as values and as exceptions.

A stage returns `Diagnostic`s; an exception ends what cannot continue::

    PenstockError
    ├── ProjectInvalid   exit 2   the documents are wrong; carries every diagnostic
    ├── PlanRefused      exit 3   the documents are valid; the request is refused
    ├── ServiceError     exit 4   a system outside does not answer or refuses; may be retriable
    └── QueryFailed      exit 5   a streaming query stopped with an error

Anything else that escapes is a bug: exit 70, with its traceback.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from enum import StrEnum
from textwrap import indent
from types import MappingProxyType
from typing import ClassVar, Final, Self

from penstock.codes import CODES

_CONVEYED: Final = "penstock-error "


@dataclass(frozen=True, slots=True)
class Origin:
    """A place in a file; lines and columns count from 1. Without a line it is the whole file."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about the documents: what, where, and how to correct it."""

    code: str
    message: str
    origin: Origin | None = None
    path: str = ""
    hint: str | None = None
    severity: Severity = Severity.ERROR
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"diagnostic code {self.code!r} is not in penstock.codes")

    def to_json(self) -> dict[str, object]:
        origin = self.origin
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "path": self.path,
            "file": origin.file if origin else None,
            "line": origin.line if origin else None,
            "column": origin.column if origin else None,
            "hint": self.hint,
            "params": dict(self.params),
        }

    def __str__(self) -> str:
        where = f"{self.origin}  " if self.origin else ""
        what = f"{self.path}: {self.message}" if self.path else self.message
        line = f"{where}{self.code}  {what}"
        return f"{line}\n    hint: {self.hint}" if self.hint else line


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR for d in diagnostics)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that a user most likely meant."""
    known = sorted(set(candidates))
    by_folded = {name.casefold(): name for name in reversed(known)}
    found = get_close_matches(word.casefold(), by_folded, n=3, cutoff=0.6)
    return next((by_folded[name] for name in found if _is_likely_typo(word.casefold(), name)), None)


def _is_likely_typo(word: str, name: str) -> bool:
    """Whether a name may be a typo of another one. If one is much longer, common letters are chance."""
    if abs(len(word) - len(name)) <= 2 or word.startswith(name) or name.startswith(word):
        return True
    return SequenceMatcher(None, word, name).ratio() >= 0.75


def did_you_mean(word: str, candidates: Iterable[str], *, otherwise: str = "available") -> str | None:
    """Return a hint with the most similar candidate, or a list of all."""
    known = sorted(set(candidates))
    if close := nearest(word, known):
        return f"did you mean `{close}`?"
    if not known:
        return None
    shown = ", ".join(known[:8]) + (", …" if len(known) > 8 else "")
    return f"{otherwise}: {shown}"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error of a query as a value, for those who decide what to do about it.

    An `internal` one has no cause in what a user wrote, and may name internals; a `retriable` one may pass by itself.
    """

    node: str | None
    message: str
    internal: bool
    retriable: bool
    code: str | None = None
    hint: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "node": self.node,
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "internal": self.internal,
            "retriable": self.retriable,
        }


class PenstockError(Exception):
    """Base of all errors for users.

    `context` grows outwards: each level that catches and raises again adds what failed because of it, and the node if
    it knows it. `others` are errors of the same cause that follow; an error that is `reported` need not be shown
    again.
    """

    exit_code: ClassVar[int] = 70

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, retriable: bool = False, internal: bool = False
    ) -> None:
        if code not in CODES:
            raise ValueError(f"error code {code!r} is not in penstock.codes")
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.retriable = retriable
        self.internal = internal
        self.context: list[str] = []
        self.node: str | None = None
        self.others: list[PenstockError] = []
        self.reported = False

    def with_context(self, what: str, *, node: str | None = None) -> Self:
        """Return the error with what it stopped. The innermost node is kept."""
        self.context.append(what)
        self.node = self.node or node
        return self

    @property
    def to_text(self) -> str:
        """The error as one line of text, which `received` parses."""
        fields = {"code": self.code, "message": self.message, "hint": self.hint, "retriable": self.retriable}
        return _CONVEYED + json.dumps({"kind": type(self).__name__, **fields})

    @staticmethod
    def received(text: str) -> "PenstockError | None":
        """Return the first error in a text that has one as by `to_text`; None if there is none."""
        begin = text.find(_CONVEYED)
        if begin < 0:
            return None
        fields, _ = json.JSONDecoder().raw_decode(text, begin + len(_CONVEYED))
        kind = QueryFailed if fields["kind"] == QueryFailed.__name__ else ServiceError
        return kind(fields["code"], fields["message"], hint=fields["hint"], retriable=fields["retriable"])

    @property
    def chain(self) -> list[str]:
        """What failed, from the outermost context to the cause."""
        return [*self.context[::-1], self.message]

    @property
    def fault(self) -> Fault:
        return Fault(self.node, ": ".join(self.chain), self.internal, self.retriable, self.code, self.hint)

    def to_json(self) -> dict[str, object]:
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "node": self.node,
            "chain": self.chain,
            "context": self.context[::-1],
            "internal": self.internal,
            "retriable": self.retriable,
        }

    def __str__(self) -> str:
        *outer, _ = self.chain
        inner = f"{self.code}  {self.message}" + (f"\n    hint: {self.hint}" if self.hint else "")
        if not outer:
            return inner
        causes = "\n".join((*outer[1:], inner))
        return f"{outer[0]}\nCaused by:\n{indent(causes, '    ')}"


class ProjectInvalid(PenstockError):
    """The documents are invalid; `diagnostics` has every reason."""

    exit_code = 2

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        errors = [d for d in diagnostics if d.severity is Severity.ERROR]
        first = errors[0]
        super().__init__(first.code, first.message, hint=first.hint)
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        return "\n".join(str(d) for d in self.diagnostics)


class PlanRefused(PenstockError):
    """The request would lose or duplicate rows, or is not possible now; `refusals` has every reason."""

    exit_code = 3
    refusals: tuple[Diagnostic, ...] = ()

    @classmethod
    def from_refusals(cls, refusals: Sequence[Diagnostic]) -> Self:
        first = refusals[0]
        error = cls(first.code, first.message, hint=first.hint)
        error.refusals = tuple(refusals)
        return error

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), "refusals": [refusal.to_json() for refusal in self.refusals]}

    def __str__(self) -> str:
        return "\n".join(str(refusal) for refusal in self.refusals) or super().__str__()


class ServiceError(PenstockError):
    """A system outside failed: Java, a disk, a broker, a database."""

    exit_code = 4


@contextmanager
def raise_as_text() -> Iterator[None]:
    """Raise errors as RuntimeErrors with their text: Spark passes on nothing else from a reader."""
    try:
        yield
    except ServiceError as error:
        raise RuntimeError(error.to_text) from None


class QueryFailed(PenstockError):
    """A streaming query failed while it ran."""

    exit_code = 5
