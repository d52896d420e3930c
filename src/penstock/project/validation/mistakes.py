"""Converts pydantic's errors to diagnostics."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penstock.config import NODE
from penstock.connectors.contract import Sink, Source
from penstock.errors import Diagnostic, did_you_mean, nearest
from penstock.project import stream_project as written
from penstock.project.runtime import Runtime
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.documents import Document, PathStep
from penstock.settings import Settings, connection_name
from penstock.transforms.sql import SqlTransform


def validation_diagnostics(
    model: type[BaseModel], error: ValidationError, raw: Any, at: Declaration[Any]
) -> list[Diagnostic]:
    """The diagnostics for a value that is not a `model`: one per place, also where a field accepts several types."""
    details = error.errors(include_url=False)
    by_place: dict[str, list[Diagnostic]] = {}
    for detail in details:
        is_outer = detail["type"] == "too_short" and _has_deeper(detail["loc"], details)
        if is_outer or _is_rest_of_type(detail, details):
            continue
        found = _to_diagnostic(model, detail, raw, at)
        by_place.setdefault(found.path, []).append(found)
    return [_merge_diagnostics(same) for same in by_place.values()]


def _is_rest_of_type(detail: ErrorDetails, details: Sequence[ErrorDetails]) -> bool:
    """Whether a column is the rest of a type that a comma inside {} has cut off. The error is then in the type before
    it."""
    *owner, name = detail["loc"] or ("",)
    is_rest = detail["type"] == "unknown_word" and _CUT.fullmatch(str(name)) is not None
    beside = [d for d in details if d["type"] == "unknown_word" and [*d["loc"][:-1]] == owner]
    return is_rest and any(is_cut_type(d["ctx"]["given"]) for d in beside)


def _has_deeper(loc: tuple[int | str, ...], details: Sequence[ErrorDetails]) -> bool:
    return any(len(d["loc"]) > len(loc) and d["loc"][: len(loc)] == loc for d in details)


def _merge_diagnostics(same: list[Diagnostic]) -> Diagnostic:
    """Merge the alternatives of a union into one diagnostic."""
    first = same[0]
    wanted = [d.message.removeprefix("this must be ").partition(", not ")[0] for d in same if d.code == "wrong-type"]
    if len(same) == 1 or len(wanted) < len(same):
        return next((d for d in same if d.code == "unknown-value"), first)
    given = first.message.rpartition(", not ")[2]
    return replace(first, message=f"this must be {', '.join(dict.fromkeys(wanted))}, not {given}")


def _to_diagnostic(model: type[BaseModel], detail: ErrorDetails, raw: Any, at: Declaration[Any]) -> Diagnostic:
    """The diagnostic for one error of validating `model` against `raw`, which is written at `at`."""
    document, base, label = at.document, at.path, at.label
    steps = at.written_steps(existing_steps(raw, detail["loc"]))
    here = document.origin(*base, *steps)
    shown = ".".join([label, *map(str, steps)])
    field = str(steps[-1]) if steps else ""
    params = {"field": field}
    match detail["type"]:
        case "missing":
            origin = document.origin(*base, *steps[:-1], key=True)
            hint = f"add `{field}: …`"
            return Diagnostic("missing-field", "this field is required", origin, shown, hint, params=params)
        case "extra_forbidden":
            origin = document.origin(*base, *steps, key=True)
            owner = _owning_model(model, detail["loc"][:-1])
            text = _unknown_field_text(model, owner, field, steps[:-1], label)
            hint = did_you_mean(field, _written_fields(owner), otherwise="fields") or "remove it"
            if _CUT.fullmatch(field):
                hint = "quote the type: inside {} a comma begins a new field: type: 'DECIMAL(10, 2)'"
            return Diagnostic("unknown-field", text, origin, shown, hint, params=params)
        case "literal_error" | "enum":
            words = _split_words(detail.get("ctx", {}).get("expected"))
            return _unknown_value(detail["input"], words, document, (*base, *steps), shown)
        case "union_tag_invalid":
            context = detail.get("ctx", {})
            tag = _split_words(context.get("discriminator"))[0]
            words = _split_words(context.get("expected_tags"))
            return _unknown_value(context.get("tag"), words, document, (*base, *steps, tag), f"{shown}.{tag}")
        case "union_tag_not_found":
            tag = _split_words(detail.get("ctx", {}).get("discriminator"))[0]
            text, hint = "this field is required", f"add `{tag}: …`"
            return Diagnostic("missing-field", text, here, f"{shown}.{tag}", hint, params={"field": tag})
        case "unknown_word":
            context = detail.get("ctx", {})
            given, text = context["given"], detail["msg"].replace(NODE, label.partition(".")[2])
            close = nearest(given, context["words"].split(", "))
            near = f"did you mean `{close}`?" if close else None
            if is_cut_type(given):
                near = f"quote the type: inside {{}} a comma begins a new field: {field}: 'decimal(10, 2)'"
            return Diagnostic("unknown-value", text, here, shown, near, params={"value": given})
        case "too_short":
            least = detail.get("ctx", {}).get("min_length", 1)
            text = f"this needs at least {least} {'entry' if least == 1 else 'entries'}"
            return Diagnostic("invalid-value", text, here, shown, params=params)
        case kind if kind in _TYPES:
            given = "a fraction" if kind == "int_from_float" else _describe_type(detail["input"])
            text = f"this must be {_TYPES[kind]}, not {given}"
            return Diagnostic("wrong-type", text, here, shown, _type_hint(detail["input"], kind), params=params)
        case _:
            text = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
            advice = detail.get("ctx", {}).get("hint")
            return Diagnostic("invalid-value", text[:1].lower() + text[1:], here, shown, advice, params=params)


_CUT: Final = re.compile(r"\s*\d+\s*\).*|[^<(]*[>].*")
"""The part of a type such as `DECIMAL(10, 2)` or `MAP<STRING, INT>` after its comma."""


def is_cut_type(value: object) -> bool:
    """Whether a type is incomplete because a comma inside {} began a new field."""
    return isinstance(value, str) and any(value.count(one) > value.count(other) for one, other in ("()", "<>"))


def _unknown_value(
    given: Any, words: list[str], document: Document, path: tuple[PathStep, ...], shown: str
) -> Diagnostic:
    text = f"`{given}` is not one of {', '.join(words)}"
    close = nearest(str(given), words)
    hint = _QUOTE_IT if isinstance(given, bool) else f"did you mean `{close}`?" if close else None
    return Diagnostic("unknown-value", text, document.origin(*path), shown, hint, params={"value": str(given)})


_TYPES: Final[Mapping[str, str]] = {
    "string_type": "text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a mapping"),
    "path_type": "a path",
}
_QUOTE_IT: Final = "YAML reads yes, no, on and off as true or false: put it in quotes"


def _type_hint(value: Any, kind: str) -> str | None:
    if _TYPES[kind] == "text" and isinstance(value, bool):
        return _QUOTE_IT
    if _TYPES[kind] == "text" and isinstance(value, int | float):
        return "put it in quotes"
    if _TYPES[kind] == "a list":
        return "begin each entry with `- `"
    return None


def _describe_type(value: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def _split_words(listed: Any) -> list[str]:
    """Split pydantic's list of words: `'a', 'b' or 'c'`."""
    return [word for part in str(listed).replace(" or ", ",").split(",") if (word := part.strip(" '"))]


def existing_steps(value: Any, loc: tuple[int | str, ...]) -> tuple[PathStep, ...]:
    """The part of a pydantic location that exists in the value: names of union members do not."""
    steps: list[PathStep] = []
    for position, step in enumerate(loc):
        if isinstance(value, Mapping) and step not in value:  # settings know sinks by another spelling of their names
            step = next((name for name in value if connection_name(str(name)) == step), step)
        if isinstance(value, Mapping) and (step in value or position == len(loc) - 1):
            steps.append(step)
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            steps.append(step)
            value = value[step]
    return tuple(steps)


def _owning_model(model: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The model that the value at a pydantic location belongs to."""
    annotation: Any = model
    for step in loc:
        annotation = _step_annotation(annotation, step)
    return next(iter(_member_models(annotation)), model)


def _step_annotation(annotation: Any, step: int | str) -> Any:
    """The annotation one step further down: of a field, an entry, or a member of a union by its tag."""
    for member in _member_models(annotation):
        if any(
            step in get_args(f.annotation) for f in member.model_fields.values() if get_origin(f.annotation) is Literal
        ):
            return member
    for member in _member_models(annotation):
        for name, field in member.model_fields.items():
            if step in (name, field.alias):
                return field.annotation
    arguments = get_args(annotation)
    return arguments[-1] if get_origin(annotation) is dict else (arguments[0] if arguments else annotation)


def _member_models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a value of this type can be, without those of its entries."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (dict, list, tuple):
        return []
    arguments = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return [model for argument in arguments for model in _member_models(argument)]


def _written_fields(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _unknown_field_text(
    model: type[BaseModel], owner: type[BaseModel], field: str, steps: tuple[PathStep, ...], label: str
) -> str:
    if (role := _node_role(model)) is None:
        return f"{_describe_model(owner, steps, label)} has no such field"
    inside = f" in {_describe_model(owner, steps, label)}" if owner is not model else ""
    return f"Failed to deserialize '{model.model_fields['type'].default}' {role}: unknown field `{field}`{inside}"


def _node_role(model: type[BaseModel]) -> str | None:
    """The role of a pipeline node: source, transform or sink."""
    roles = {Source: "source", Sink: "sink", SqlTransform: "transform"}
    return next((role for base, role in roles.items() if issubclass(model, base)), None)


_CALLED: Final[Mapping[type[BaseModel], str]] = {
    written.ProjectHeader: "`project`",
    written.Source: "a source",
    written.Model: "a model",
    written.DataTest: "a test",
    written.Exposure: "an exposure",
    written.Rules: "`rules`",
    written.Defaults: "`defaults`",
    written.EnvironmentFile: "an environment",
    Runtime: "`runtime`",
    Settings: "a settings file",
}


def _describe_model(model: type[BaseModel], steps: tuple[PathStep, ...], label: str) -> str:
    """The name of a model for messages: its kind, or the key that holds it."""
    if model in _CALLED:
        return _CALLED[model]
    keys = [str(step) for step in steps if isinstance(step, str)] or [label]
    return f"an entry of `{keys[-1]}`" if steps and isinstance(steps[-1], int) and keys else f"`{keys[-1]}`"
