"""An element with the position at which it was written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from penstock.errors import Diagnostic, Origin, Severity
from penstock.project.validation.forms import Form, has_path, written_path
from penstock.project.yaml.documents import Document, PathStep, TextFile

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Declaration(Generic[T]):
    """`value` as parsed from `document` at `path`; None until it is parsed. `label` is how messages call that path.

    `raw` is the value as written, with references such as `${NAME}`, at its canonical place. `forms` says what was
    moved there. `texts` has the fields that have a file of their own.
    """

    value: T
    document: Document
    path: tuple[PathStep, ...]
    label: str
    raw: Any = None
    forms: tuple[Form, ...] = ()
    texts: Mapping[str, TextFile] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def origin(self) -> Origin:
        if self.document.root is None:
            return Origin(self.document.file, 1, 1)
        return self.document.origin(*self.path, key=True)

    def origin_of(self, *steps: PathStep, key: bool = False) -> Origin:
        """The position of a field's value, or of its key."""
        return self.document.origin(*self.path, *self.written_steps(steps), key=key)

    def diagnostic(
        self,
        code: str,
        text: str,
        hint: str | None = None,
        *,
        at: tuple[PathStep, ...] = (),
        severity: Severity = Severity.ERROR,
        **params: str,
    ) -> Diagnostic:
        """A diagnostic about the field at `at`, or about the element."""
        origin = self.origin_of(*at) if at else self.origin
        return Diagnostic(code, text, origin, self.label_of(*at), hint, severity, params)

    def origin_inside(self, field: str, offset: int) -> Origin:
        """The position in the file of character `offset` of a text field."""
        if field in self.texts:
            return self.texts[field].origin(offset)
        return self.document.inside((*self.path, *self.written_steps((field,))), offset)

    def source_text(self, *steps: PathStep) -> str | None:
        """The text of a scalar in the document, before YAML converts it."""
        return self.document.source_text(*self.path, *self.written_steps(steps))

    def is_mapping(self, *steps: PathStep) -> bool:
        return self.document.is_mapping(*self.path, *self.written_steps(steps))

    def has_field(self, *steps: str) -> bool:
        """Whether the field was written at all."""
        return has_path(self.raw, steps)

    def label_of(self, *steps: PathStep) -> str:
        """The label of a field in messages: the path at which it was written."""
        return ".".join([self.label, *map(str, self.written_steps(steps))])

    def written_steps(self, steps: tuple[PathStep, ...]) -> tuple[PathStep, ...]:
        """The path at which a field was written."""
        return written_path(self.document, self.path, steps, self.forms) if self.forms else steps
