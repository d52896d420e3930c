"""Base for reading both formats: values become models, and every error becomes a diagnostic."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.project.validation.forms import Form, written_path
from penstock.project.validation.mistakes import is_cut_type, validation_diagnostics
from penstock.project.validation.placeholders import fill_stand_ins, is_stand_in_error
from penstock.project.yaml.documents import Document, PathStep
from penstock.project.yaml.variables import Environ, UnsetVariable, never, resolve_variables, unset_hint

M = TypeVar("M", bound=BaseModel)


class DocumentReader:
    """Collects diagnostics while documents are read.

    With `stand_ins`, an element with an unset variable is still checked.
    """

    def __init__(self, environ: Environ, *, stand_ins: bool = False) -> None:
        self.environ = environ
        self.stand_ins = stand_ins
        self.diagnostics: list[Diagnostic] = []
        self.refused: set[str] = set()

    def is_mapping(self, document: Document, base: tuple[PathStep, ...], keys: Sequence[str], what: str) -> bool:
        """Whether the value at `base` is a mapping. Unknown keys give a diagnostic."""
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
        path: tuple[PathStep, ...],
        label: str,
        *,
        forms: Sequence[Form] = (),
        later: Callable[[tuple[PathStep, ...]], bool] = never,
    ) -> M | None:
        """The value as a model, with its variables resolved except at the paths in `later`."""
        value, unset = resolve_variables(raw, self.environ, later)
        for reference in unset:
            self.unset(reference, document, path, label, forms, Severity.ERROR)
        if unset:
            return self.read_with_stand_ins(model, raw, unset, document, path, label, forms=forms, later=later)
        try:
            return model.model_validate(value)
        except ValidationError as error:
            self.diagnostics += validation_diagnostics(model, error, value, document, path, label, forms)
            return _drop_unknown_fields(model, value, error)

    def read_with_stand_ins(
        self,
        model: type[M],
        raw: Any,
        unset: Sequence[UnsetVariable],
        document: Document,
        path: tuple[PathStep, ...],
        label: str,
        *,
        forms: Sequence[Form] = (),
        later: Callable[[tuple[PathStep, ...]], bool] = never,
    ) -> M | None:
        """The value as a model, with stand-ins for unset variables. Errors that a stand-in causes are dropped."""
        for value in fill_stand_ins(raw, self.environ, unset, later) if self.stand_ins else ():
            try:
                return model.model_validate(value)
            except ValidationError as error:
                if not is_stand_in_error(error, value, unset):
                    self.diagnostics += validation_diagnostics(model, error, value, document, path, label, forms)
                    return _drop_unknown_fields(model, value, error)
        return None

    def unset(
        self,
        reference: UnsetVariable,
        document: Document,
        path: tuple[PathStep, ...],
        label: str,
        forms: Sequence[Form],
        severity: Severity,
    ) -> None:
        steps = written_path(document, path, reference.path, forms)
        origin = document.origin_of_text((*path, *steps), f"${{{reference.name}")
        text = f"the environment variable `{reference.name}` is not set"
        shown = ".".join([label, *map(str, steps)])
        self.note(
            "unset-variable", origin, shown, text, unset_hint(reference.name), severity=severity, name=reference.name
        )

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


def _drop_unknown_fields(model: type[M], value: Any, error: ValidationError) -> M | None:
    """The value without unknown fields, if nothing else is wrong, so that the rest is still checked."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    if any(detail["type"] != "extra_forbidden" for detail in details):
        return None
    known = deepcopy(value)
    for detail in details:
        *owners, field = detail["loc"]
        holder = known
        for step in owners:
            if isinstance(holder, dict):
                holder = holder.get(step, holder)  # other steps are members of unions, which are no part of the value
            elif isinstance(holder, list) and isinstance(step, int):
                holder = holder[step]
        rest = holder.pop(str(field), field) if isinstance(holder, dict) else field
        if rest is None and is_cut_type(holder.get("type")):
            holder["type"] = f"{holder['type']}, {field}"
    try:
        return model.model_validate(known)
    except ValidationError:
        return None
