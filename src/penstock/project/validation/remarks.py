"""Remarks on sound documents: deprecated forms, fields without effect, exposed secrets."""

from collections.abc import Callable
from typing import Any

from penstock.errors import Severity
from penstock.project.validation.declaration import Declaration
from penstock.project.validation.forms import Form, inert_fields, written_path
from penstock.project.validation.reader import DocumentReader
from penstock.project.yaml.documents import Document, PathStep
from penstock.project.yaml.secrets import SECRET_HINT, is_secret
from penstock.project.yaml.variables import find_references


class RemarkingReader(DocumentReader):
    """Reads values and adds remarks on how they are written."""

    def note_forms(
        self,
        used: tuple[Form, ...],
        twice: tuple[Form, ...],
        document: Document,
        path: tuple[PathStep, ...],
        label: str,
    ) -> None:
        for form in used:
            if form.deprecated:
                origin = document.origin(*path, *form.old, key=True)
                text, hint = "this form is deprecated", f"write it as `{form.shown}`"
                shown = f"{label}.{'.'.join(form.old)}"
                self.note("deprecated-form", origin, shown, text, hint, severity=Severity.WARNING, field=form.old[-1])
        for form in twice:
            origin = document.origin(*path, *form.old, key=True)
            others = tuple(other for other in used if other is not form)
            first = written_path(document, path, form.new, others)
            text = f"this is also given as `{'.'.join(map(str, first))}` in {document.origin(*path, *first, key=True)}"
            self.note("given-twice", origin, f"{label}.{'.'.join(form.old)}", text, "keep one of the two")

    def secrets(
        self,
        raw: Any,
        document: Document,
        path: tuple[PathStep, ...],
        label: str,
        forms: tuple[Form, ...],
        later: Callable[[tuple[PathStep, ...]], bool],
    ) -> None:
        """Refuse secrets that would be written into the manifest."""
        for name, _, place in find_references(raw):
            if is_secret(name, self.environ) and not later(place):
                steps = written_path(document, path, place, forms)
                text = f"`{name}` looks like a secret, and would be written into the manifest"
                origin = document.origin_of_text((*path, *steps), f"${{{name}")
                shown = ".".join([label, *map(str, steps)])
                self.note("secret-exposed", origin, shown, text, SECRET_HINT, name=name)

    def inert(
        self,
        section: str,
        raw: Any,
        document: Document,
        path: tuple[PathStep, ...],
        label: str,
        forms: tuple[Form, ...],
    ) -> None:
        """Report every field without effect, and the reason."""
        for field, why in inert_fields(section, raw):
            steps = written_path(document, path, field, forms)
            shown = ".".join([label, *map(str, steps)])
            origin = document.origin(*path, *steps, key=True)
            text = f"this has no effect: {why}"
            self.note("no-effect", origin, shown, text, severity=Severity.INFO, field=field[-1])

    def note_duplicate_columns(self, element: Declaration[Any]) -> None:
        seen: set[str] = set()
        for position, column in enumerate(element.value.columns):
            if column.name.casefold() in seen:
                text = f"the column `{column.name}` is declared twice"
                origin, label = element.origin_of("columns", position), element.label_of("columns", position)
                self.note("duplicate-name", origin, label, text, name=column.name)
            seen.add(column.name.casefold())
