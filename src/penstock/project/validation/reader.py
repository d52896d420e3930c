"""Base for reading both formats: values become models, and every error becomes a diagnostic."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

from penstock.errors import Diagnostic, Origin, Severity, did_you_mean
from penstock.project.validation.declaration import Declaration
from penstock.project.validation.forms import NormalizedForm, inert_fields, written_path
from penstock.project.validation.mistakes import existing_steps, is_cut_type, validation_diagnostics
from penstock.project.yaml.documents import Document, PathStep
from penstock.project.yaml.secrets import SECRET_HINT, is_secret
from penstock.project.yaml.variables import (
    Environ,
    UnsetVariable,
    find_references,
    never,
    resolve_variables,
    unset_hint,
)

M = TypeVar("M", bound=BaseModel)
IsLater: TypeAlias = Callable[[tuple[PathStep, ...]], bool]
"""Whether the variables at a path are resolved later, when the query starts."""


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

    def read(self, model: type[M], at: Declaration[Any], later: IsLater = never) -> M | None:
        """The raw value as a model, with its variables resolved except at the paths in `later`."""
        value, unset = resolve_variables(at.raw, self.environ, later)
        for variable in unset:
            self.note_unset_variable(variable, at, Severity.ERROR)
        if unset:
            return self.read_with_stand_ins(model, at, unset, later)
        try:
            return model.model_validate(value)
        except ValidationError as error:
            self.diagnostics += validation_diagnostics(model, error, value, at)
            return _drop_unknown_fields(model, value, error)

    def read_with_stand_ins(
        self, model: type[M], at: Declaration[Any], unset: Sequence[UnsetVariable], later: IsLater = never
    ) -> M | None:
        """The raw value as a model, with stand-ins for unset variables. Errors that a stand-in causes are dropped."""
        for value in _fill_stand_ins(at.raw, self.environ, unset, later) if self.stand_ins else ():
            try:
                return model.model_validate(value)
            except ValidationError as error:
                if not _is_stand_in_error(error, value, unset):
                    self.diagnostics += validation_diagnostics(model, error, value, at)
                    return _drop_unknown_fields(model, value, error)
        return None

    def note_unset_variable(self, variable: UnsetVariable, at: Declaration[Any], severity: Severity) -> None:
        origin, name = self._reference_origin(at, variable.path, variable.name), variable.name
        text = f"the environment variable `{name}` is not set"
        shown = at.label_of(*variable.path)
        self.note("unset-variable", origin, shown, text, unset_hint(name), severity=severity, name=name)

    def note_forms(self, form: NormalizedForm, at: Declaration[Any]) -> None:
        """Report deprecated forms, and values that are given in two forms."""
        for used in form.used:
            if used.deprecated:
                origin, shown = at.document.origin(*at.path, *used.old, key=True), f"{at.label}.{'.'.join(used.old)}"
                text, hint = "this form is deprecated", f"write it as `{used.shown}`"
                self.note("deprecated-form", origin, shown, text, hint, severity=Severity.WARNING, field=used.old[-1])
        for twice in form.twice:
            others = tuple(other for other in form.used if other is not twice)
            first = written_path(at.document, at.path, twice.new, others)
            place = at.document.origin(*at.path, *first, key=True)
            text = f"this is also given as `{'.'.join(map(str, first))}` in {place}"
            origin = at.document.origin(*at.path, *twice.old, key=True)
            self.note("given-twice", origin, f"{at.label}.{'.'.join(twice.old)}", text, "keep one of the two")

    def refuse_secrets(self, at: Declaration[Any], later: IsLater = never) -> None:
        """Refuse secrets that would be written into the manifest."""
        for name, _, path in find_references(at.raw):
            if is_secret(name, self.environ) and not later(path):
                text = f"`{name}` looks like a secret, and would be written into the manifest"
                origin = self._reference_origin(at, path, name)
                self.note("secret-exposed", origin, at.label_of(*path), text, SECRET_HINT, name=name)

    def note_inert_fields(self, section: str, at: Declaration[Any]) -> None:
        """Report every field without effect, and the reason."""
        for field, why in inert_fields(section, at.raw):
            origin, text = at.origin_of(*field, key=True), f"this has no effect: {why}"
            self.note("no-effect", origin, at.label_of(*field), text, severity=Severity.INFO, field=field[-1])

    def note_duplicate_columns(self, element: Declaration[Any]) -> None:
        seen: set[str] = set()
        for position, column in enumerate(element.value.columns):
            if column.name.casefold() in seen:
                text, at = f"the column `{column.name}` is declared twice", ("columns", position)
                self.diagnostics.append(element.diagnostic("duplicate-name", text, at=at, name=column.name))
            seen.add(column.name.casefold())

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

    def _reference_origin(self, at: Declaration[Any], path: tuple[PathStep, ...], name: str) -> Origin:
        """The position of `${NAME}` in the text at a path."""
        return at.document.origin_of_text((*at.path, *at.written_steps(path)), f"${{{name}")


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


# Stand-ins for environment variables that are not set, so that the rest of an element is still checked. Only `validate`
# uses them: commands that run or write refuse a variable that is not set.

_NAMING: Final = frozenset(
    {
        "columns", "column", "consumes", "definition", "depends_on", "event_time", "from", "group", "key", "model",
        "name", "primary_key", "produces", "ref", "source", "sql", "type", "where",
    }
)  # fmt: skip
"""Fields that are names or SQL: a stand-in for one would cause a second error."""
_NUMBER: Final = "1"


def _fill_stand_ins(raw: Any, environ: Environ, unset: Sequence[UnsetVariable], later: IsLater) -> Iterator[Any]:
    """The value with stand-ins: first the names of the variables, then numbers."""
    if any(step in _NAMING for variable in unset for step in variable.path):
        return
    for number in (None, _NUMBER):
        given = {variable.name: number or variable.name for variable in unset}
        yield resolve_variables(raw, {**environ, **given}, later)[0]


def _is_stand_in_error(error: ValidationError, value: Any, unset: Sequence[UnsetVariable]) -> bool:
    """Whether an error is about a stand-in, or about a value that contains one."""
    at = [variable.path for variable in unset]
    wrong = [existing_steps(value, detail["loc"]) for detail in error.errors(include_url=False, include_input=False)]
    return any(path[: len(steps)] == steps for steps in wrong for path in at)
