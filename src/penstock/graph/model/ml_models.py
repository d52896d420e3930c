"""Machine-learning models that a model's SQL calls: their result types, and whether the calls are valid."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from penstock.errors import Diagnostic, Severity, did_you_mean, nearest
from penstock.project import stream_project as written
from penstock.project.parse import Project
from penstock.project.project import StreamProject
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.documents import PathStep
from penstock.sql.analyze.ml_calls import ModelCall
from penstock.sql.parse.query import Problem
from penstock.sql.types.columns import TYPE_NAMES, spark_type


def answer_types(model: written.Model) -> dict[str, str]:
    """The valid types that `ml_outputs` declares, by model."""
    found = {name: _struct_type(output) for name, output in model.ml_outputs.items()}
    return {name: kind for name, kind in found.items() if kind is not None}


def _struct_type(output: written.MlOutput) -> str | None:
    fields = [f"`{c.name}`: {spark_type(c.type or 'STRING')}" for c in output.columns]
    return spark_type(f"STRUCT<{', '.join(fields)}>") if fields else None


def invalid_calls(calls: Iterable[ModelCall]) -> Iterator[Problem]:
    """Report calls with invalid arguments."""
    for call in calls:
        hint = f"write {call.function}('{call.model or 'Model'}', column, …)"
        if not call.model:
            text = f"the first argument of {call.function} is the name of a model"
            yield Problem("sql-statement", text, call.offset, hint, call.function)
        elif not call.arguments:
            text = f"{call.function} passes no columns to `{call.model}`"
            yield Problem("sql-statement", text, call.offset, hint, call.model)


def unavailable_calls(calls: Iterable[ModelCall], known: Collection[str]) -> Iterator[Problem]:
    """Report valid calls that cannot run here. `known` are the models of `runtime.ml`."""
    for call in calls:
        if call.as_table:
            text = f"{call.function} cannot be used as a table function"
            hint = f"call it in the SELECT: {call.function}('{call.model}', …) AS prediction"
            yield Problem("sql-unsupported", text, call.offset, hint, call.function)
        elif call.model and call.model not in known:
            text = f"{call.function} cannot run here: `runtime.ml` has no model `{call.model}`"
            close = nearest(call.model, known)
            hint = f"did you mean `{close}`? If not, " if close else ""
            hint += f"add `runtime: {{ml: {{models: {{{call.model}: {{path: …}}}}}}}}`"
            yield Problem("sql-unsupported", text, call.offset, hint, call.function)


def output_notes(declared: Declaration[written.Model], calls: Collection[ModelCall]) -> Iterator[Diagnostic]:
    """Report invalid types in `ml_outputs`, and models that the SQL does not call."""
    asked = {call.model for call in calls}
    for name, output in declared.value.ml_outputs.items():
        for position, column in enumerate(output.columns):
            if column.type is not None and spark_type(column.type) is None:
                at = _type_steps(declared, name, position, column.name)
                word = column.type.partition("(")[0].partition("<")[0].upper()
                text, hint = f"`{column.type}` is not a type", did_you_mean(word, TYPE_NAMES, otherwise="types")
                yield declared.diagnostic("unknown-column-type", text, hint, at=at)
        if asked and name not in asked:
            text, hint = f"the SQL calls no model `{name}`", did_you_mean(name, asked, otherwise="it asks")
            origin, path = declared.origin_of("ml_outputs", name, key=True), declared.label_of("ml_outputs", name)
            yield Diagnostic("no-effect", text, origin, path, hint, Severity.WARNING)


def _type_steps(declared: Declaration[written.Model], name: str, position: int, column: str) -> tuple[PathStep, ...]:
    """The path of a result column's type, in the short or the long form."""
    is_long = "columns" in declared.raw["ml_outputs"][name]
    return ("ml_outputs", name, "columns", position, "type") if is_long else ("ml_outputs", name, column)


# Files, before linking


def model_files(project: Project, root: Path) -> tuple[Mapping[str, str], list[Diagnostic]]:
    """The digest of each model file of `runtime.ml`, and warnings about missing files."""
    digests: dict[str, str] = {}
    notes: list[Diagnostic] = []
    if not isinstance(project, StreamProject):
        return digests, notes
    runtime = project.runtime_section
    for name, model in runtime.value.ml.models.items():
        try:
            digests[name] = _digest(root / model.path)
        except OSError as error:
            text = f"`{model.path}` cannot be read: {error.strerror}"
            hint, at = "the path is relative to the directory of the project", ("ml", "models", name, "path")
            missing = runtime.diagnostic("ml-model-missing", text, hint, at=at, severity=Severity.WARNING, model=name)
            notes.append(missing)
    return digests, notes


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:16]
