"""What reading both formats has in common: values become models, and every mistake becomes a diagnostic."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.project.documents import Document, Step
from penstock.project.forms import Form, written_path
from penstock.project.mistakes import mistakes
from penstock.project.variables import Environ, Unset, never, resolved

M = TypeVar("M", bound=BaseModel)


class Reader:
    """Collects diagnostics while documents are read."""

    def __init__(self, environ: Environ) -> None:
        self.environ = environ
        self.diagnostics: list[Diagnostic] = []
        self.refused: set[str] = set()

    def is_mapping(self, document: Document, base: tuple[Step, ...], keys: Sequence[str], what: str) -> bool:
        """Whether the value at `base` is a mapping. Keys that it may not have are noted."""
        value = document.value
        for step in base:
            value = value[step]
        if not isinstance(value, dict):
            found = "a list" if isinstance(value, list) else "a single value"
            text = f"{what} is a mapping; this is {found}"
            begin = f"begin with {', '.join(f'`{k}:`' for k in keys)}"
            self.note("wrong-shape", document.origin(*base), "", text, begin)
            return False
        for key in value:
            if key not in keys:
                origin = document.origin(*base, key, key=True)
                hint = did_you_mean(key, keys)
                self.note("unknown-field", origin, key, f"{what} has no such section", hint, field=key)
        return True

    def read(
        self,
        model: type[M],
        raw: Any,
        document: Document,
        path: tuple[Step, ...],
        label: str,
        *,
        forms: Sequence[Form] = (),
        later: Callable[[tuple[Step, ...]], bool] = never,
    ) -> M | None:
        """The value as a model, its variables filled in, but for those at paths that are left for `later`."""
        value, unset = resolved(raw, self.environ, later)
        for reference in unset:
            self.unset(reference, document, path, label, forms, Severity.ERROR)
        if unset:
            return None  # what a missing variable makes of a value is no second mistake
        try:
            return model.model_validate(value)
        except ValidationError as error:
            self.diagnostics += mistakes(model, error, value, document, path, label, forms)
            return None

    def unset(
        self,
        reference: Unset,
        document: Document,
        path: tuple[Step, ...],
        label: str,
        forms: Sequence[Form],
        severity: Severity,
    ) -> None:
        steps = written_path(document, path, reference.path, forms)
        origin = document.origin_of_text((*path, *steps), f"${{{reference.name}")
        text = f"the environment variable `{reference.name}` is not set"
        shown = ".".join([label, *map(str, steps)])
        self.note("unset-variable", origin, shown, text, _UNSET_HINT, severity=severity, name=reference.name)

    def note(
        self,
        code: str,
        origin: Origin,
        path: str,
        text: str,
        hint: str | None = None,
        *,
        severity: Severity = Severity.ERROR,
        **params: str,
    ) -> None:
        self.diagnostics.append(Diagnostic(code, text, origin, path, hint, severity, params))


_UNSET_HINT = "set it, put it into `.env`, or give a default: `${NAME:-default}`"
