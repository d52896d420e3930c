"""An element together with the place it was written."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.errors import Origin
from penstock.project.documents import Document, Step

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Declared(Generic[T]):
    """`value` as parsed from `document` at `path`; `label` is how messages call that path."""

    value: T
    document: Document
    path: tuple[Step, ...]
    label: str

    @property
    def origin(self) -> Origin:
        return self.document.origin(*self.path, key=True)

    def origin_of(self, *steps: Step) -> Origin:
        return self.document.origin(*self.path, *steps)

    def origin_inside(self, field: str, offset: int) -> Origin:
        """Where character `offset` of a text field stands in the file."""
        return self.document.inside((*self.path, field), offset)
