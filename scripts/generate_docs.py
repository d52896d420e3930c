"""Writes what can be told from the code itself: references, JSON schemas for editors, and the quickstart example.

    python scripts/generate_docs.py

A test compares the files with what this would write, so they cannot go stale.
"""

import ast
import inspect
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from pydantic import AliasChoices, BaseModel, SecretStr
from pydantic.json_schema import GenerateJsonSchema, models_json_schema
from pydantic_core import core_schema

from penstock.cli.init import write_project
from penstock.cli.main import COMMANDS, app
from penstock.codes import CODES
from penstock.config import FrozenModel
from penstock.connectors.contract import Sink
from penstock.connectors.node import PipelineNode, inert_fields
from penstock.connectors.registry import all_connectors
from penstock.project import stream_project
from penstock.project.application_settings import INERT as SETTINGS_WITHOUT_EFFECT
from penstock.project.runtime import Runtime
from penstock.project.validation.forms import FORMS, INERT
from penstock.settings import Settings
from penstock.sql.catalog import pipeline_functions as pipelines
from penstock.sql.catalog.flink_functions import AGGREGATES, COLLECTIONS, JSON, NUMBERS, TEXTS, TIMES, Function
from penstock.sql.lint.function_calls import signature
from penstock.testing.lines import LINES
from penstock.transforms.sql import TRANSFORMS

ROOT = Path(__file__).parent.parent
SOURCE_NOTE = "<!-- Written by scripts/generate_docs.py: change the code, then run `make docs`. -->\n"
EXIT_CODES = """## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 2 | the documents are wrong |
| 3 | refused: what was asked would lose or double something, or is not possible now |
| 4 | a system outside does not do its part: Java, a disk, a broker |
| 5 | a streaming query failed |
| 70 | a bug in Penstock, with its traceback |"""
_OWN_SINKS = """## For sinks of your own

`penstock.testing.contract.SinkContract` has the checks as methods: give it the sink, a Spark session, and a function
that reads back the ids from the system itself; `written_rows` for the values, and `service` if you can stop and start
the system. What the sink does not promise stands in its `waives`, each with a reason."""
SCHEMA = "https://json-schema.org/draft/2020-12/schema"


def generated() -> Iterator[tuple[str, str]]:
    """Paths below the repository and what belongs into them."""
    yield "docs/reference/diagnostics.md", diagnostics()
    yield "docs/reference/connectors.md", connectors()
    yield "docs/reference/sinks.md", sinks()
    yield "docs/reference/project.md", project_format()
    yield "docs/reference/settings.md", settings()
    yield "docs/reference/commands.md", commands()
    yield "docs/reference/functions.md", functions()
    yield "docs/schema/stream_project.schema.json", _json(project_schema())
    yield "docs/schema/pipeline.schema.json", _json(pipeline_schema())
    with tempfile.TemporaryDirectory() as folder:
        for path in write_project(Path(folder), "quickstart"):
            yield f"examples/quickstart/{path}", (Path(folder) / path).read_text(encoding="utf-8")


# References


def diagnostics() -> str:
    rows = "\n".join(f"| `{code}` | {text} |" for code, text in CODES.items())
    head = "# Diagnostics\n\nEvery message of `penstock` carries one of these codes."
    return f"{SOURCE_NOTE}\n{head}\n\n| code | what it means |\n|---|---|\n{rows}\n"


def functions() -> str:
    flink = {"Texts": TEXTS, "Times": TIMES, "Numbers": NUMBERS, "Collections": COLLECTIONS, "JSON": JSON}
    lines = [SOURCE_NOTE, "# Functions that are translated", ""]
    lines += ["Functions of projects and of pipelines that Spark lacks or understands otherwise.", ""]
    lines += ["[SQL](../sql.md) tells the rest. `PENSTOCK_ROW_…` is Java that comes with Penstock.", ""]
    lines += ["# In projects", "", "These are functions of Flink SQL.", ""]
    lines += _function_tables({**flink, "Aggregates": AGGREGATES})
    lines += ["# In pipelines", "", "`literal` is a text that must be written out.", ""]
    own = (pipelines.TEXTS, pipelines.BYTES, pipelines.TIMES, pipelines.NUMBERS, pipelines.LISTS, pipelines.JSON)
    titles = ("Texts", "Bytes and digests", "Times", "Numbers", "Lists, structs and maps", "JSON")
    lines += _function_tables({f"{title} in pipelines": table for title, table in zip(titles, own, strict=True)})
    return "\n".join(lines)


def _function_tables(groups: Mapping[str, Mapping[str, Function]]) -> Iterator[str]:
    for title, listed in groups.items():
        yield from (f"## {title}", "", "| function | gives | in Spark |", "|---|---|---|")
        for name, function in sorted(listed.items()):
            gives = {None: "", "element": "an element", "_1": "the first argument's type", "_2": "the second's type"}
            text = (
                f"`{function.spark[-1]}`".replace("|", "\\|") if function.spark else "made when the arguments are known"
            )
            yield f"| `{signature(name, function)}` | {gives.get(function.returns, function.returns)} | {text} |"
        yield ""


def _words(model: type[BaseModel]) -> str:
    """The name of a model in words: `GroupColumn` is a `group column`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", model.__name__).lower()


def connectors() -> str:
    parts = [SOURCE_NOTE, "# Sources, transforms and sinks of a pipeline", _every_node()]
    for role, connector in all_connectors():
        parts.append(f"## {role} `{connector.model_fields['type'].default}`\n\n{_summary(connector)}")
        if issubclass(connector, Sink):
            parts.append(f"Delivery: {connector.delivery}.")
        parts.append(_fields_table(connector, PipelineNode))
        parts += [
            f"`{_words(nested)}`: {_summary(nested)}\n\n{_fields_table(nested)}"
            for nested in _nested(connector)
            if nested not in _nested(PipelineNode)
        ]
    for name, transform in TRANSFORMS.items():
        parts.append(f"## transform `{name}`\n\n{_summary(transform)}\n\n{_fields_table(transform, PipelineNode)}")
    return "\n\n".join(parts) + "\n"


def sinks() -> str:
    """What each sink promises, line by line of the contract, and why it does not promise the rest."""
    models = [model for _, model in all_connectors() if issubclass(model, Sink)]
    found = sorted((str(model.model_fields["type"].default), model) for model in models)
    head = (
        "# What sinks promise\n\nEvery sink is put through the same checks, with the real service behind it, and rows "
        "are counted by their ids where they were written. ✓ was seen; – is not promised, for a reason below. Kafka is "
        "seen with JSON values, ClickHouse with its engine, which does one statement at a time and replicates nothing."
    )
    lines = [f"| | {' | '.join(f'`{name}`' for name, _ in found)} |", "|---|" + "---|" * len(found)]
    for check, said in LINES.items():
        marks = ("–" if check in model.waives else "✓" for _, model in found)
        lines.append(f"| {said} | {' | '.join(marks)} |")
    delivery = [f"- `{name}`: {model.delivery}." for name, model in found]
    reasons = []
    for name, model in found:
        waived: dict[str, list[str]] = {}
        for check, why in model.waives.items():
            waived.setdefault(why, []).append(LINES[check])
        reasons += [f"- `{name}`, {_few(said)}: {why}." for why, said in waived.items()]
    parts = [SOURCE_NOTE, head, "\n".join(lines), "## What a crash leaves", "\n".join(delivery)]
    parts += ["## What is not promised", "\n".join(reasons), _OWN_SINKS]
    return "\n\n".join(parts) + "\n"


def _few(said: list[str]) -> str:
    return f"“{'”, “'.join(said)}”" if len(said) < 5 else "everything that is read back"


def _every_node() -> str:
    """What all nodes share, and what of it changes nothing in which of them."""
    parts = ["## Every node", _fields_table(PipelineNode)]
    parts += [f"`{_words(model)}`: {_summary(model)}\n\n{_fields_table(model)}" for model in _nested(PipelineNode)]
    nodes: list[tuple[str, type[PipelineNode]]] = [
        *((f"{role} `{connector.model_fields['type'].default}`", connector) for role, connector in all_connectors()),
        *((f"transform `{name}`", transform) for name, transform in TRANSFORMS.items()),
    ]
    rows: dict[tuple[str, str], list[str]] = {}
    for name, node in nodes:
        for field, why in inert_fields(node).items():
            rows.setdefault((node.model_fields[field].alias or field, why), []).append(name)
    lines = [f"| `{field}` | {', '.join(names)} | {why} |" for (field, why), names in sorted(rows.items())]
    head = "These fields are understood and change nothing. `validate` says so, as `info`."
    return "\n\n".join([*parts, head, "\n".join(["| field | of | why |", "|---|---|---|", *lines])])


def settings() -> str:
    """One line a property; a section that changes nothing is one line too."""
    head = (
        "# Settings of the application\n\nA setting `a.b` is `a: {b: …}` in a file, and `PENSTOCK__A__B` or "
        "`STREAMLING__A__B` in the environment. "
        "[Pipelines](../pipelines.md#settings) has their precedence."
    )
    rows = "\n".join(_settings_rows(Settings, ""))
    return f"{SOURCE_NOTE}\n{head}\n\n| property | default | meaning |\n|---|---|---|\n{rows}\n"


def _settings_rows(model: type[BaseModel], section: str) -> Iterator[str]:
    docs = field_docs(model)
    for field_name, field in model.model_fields.items():
        name = section + (field.alias or field_name)
        nested = field.annotation
        if name not in SETTINGS_WITHOUT_EFFECT and isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from _settings_rows(nested, f"{name}.")
        else:
            meaning = (
                f"It changes nothing: {SETTINGS_WITHOUT_EFFECT[name]}."
                if name in SETTINGS_WITHOUT_EFFECT
                else docs.get(field_name, "")
            )
            yield f"| `{name}` | {_default(field.get_default(call_default_factory=True))} | {meaning} |"


def project_format() -> str:
    parts = [
        SOURCE_NOTE,
        "# The project format",
        "What can be written in `stream_project.yml`, and in the files below `sources/`, `models/`, `tests/`, "
        "`exposures/` and `environments/`. Beside these sections there is `vars`: names and values for "
        '`{{ var("name") }}`.',
    ]
    sections: dict[str, type[FrozenModel]] = {
        "project": stream_project.ProjectHeader,
        "runtime": Runtime,
        "defaults": stream_project.Defaults,
        "rules": stream_project.Rules,
        "sources[]": stream_project.Source,
        "models[]": stream_project.Model,
        "tests[]": stream_project.DataTest,
        "exposures[]": stream_project.Exposure,
        "environments/<name>.yml": stream_project.EnvironmentFile,
    }
    told: set[type[BaseModel]] = set(sections.values())
    for name, model in sections.items():
        parts.append(f"## `{name}`\n\n{_summary(model)}\n\n{_fields_table(model)}")
        new = [nested for nested in _nested(model) if nested not in told and nested.model_fields]
        told.update(new)
        parts += [f"### `{nested.__name__}`\n\n{_summary(nested)}\n\n{_fields_table(nested)}" for nested in new]
    return "\n\n".join([*parts, _other_forms(), _fields_without_effect()]) + "\n"


def _other_forms() -> str:
    rows = [
        f"| {section} | `{'.'.join(form.old)}` | `{'.'.join(form.new)}` | {'yes' if form.deprecated else ''} |"
        for section, forms in FORMS.items()
        for form in forms
    ]
    head = "## Other places for a field\n\nThese are understood, and mean the field in the third column."
    return "\n".join([head, "", "| element | written as | means | deprecated |", "|---|---|---|---|", *rows])


def _fields_without_effect() -> str:
    rows = [
        f"| {section} | `{'.'.join(field)}` | {why} |"
        for section, fields in INERT.items()
        for field, why in fields.items()
    ]
    head = "## Fields that change nothing here\n\n`validate` says so, as `info`."
    return "\n".join([head, "", "| element | field | why |", "|---|---|---|", *rows])


def commands() -> str:
    group: Any = typer.main.get_command(app)
    parts = [SOURCE_NOTE, "# Commands"]
    for name in COMMANDS:
        command = group.get_command(None, name)
        inner = getattr(command, "commands", None)
        for shown, each in {f"{name} {k}": v for k, v in inner.items()}.items() if inner else [(name, command)]:
            rows = [_parameter(parameter) for parameter in each.params if parameter.name != "help"]
            table = "| argument | meaning |\n|---|---|\n" + "\n".join(rows)
            parts.append(f"## `penstock {shown}`\n\n{each.help}\n\n{table}")
    parts.append(EXIT_CODES)
    return "\n\n".join(parts) + "\n"


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "option":
        shown = ", ".join(f"`{option}`" for option in parameter.opts)
    else:
        shown = f"`{parameter.metavar or parameter.name.upper()}`"
    return f"| {shown} | {getattr(parameter, 'help', '') or ''} |"


def _summary(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "")


def _fields_table(model: type[BaseModel], shared: type[BaseModel] = BaseModel) -> str:
    """The fields of a model. Those that it has from `shared`, as they are there, are told elsewhere."""
    docs = field_docs(model)
    told = {name for name in shared.model_fields if docs.get(name) == field_docs(shared).get(name)}
    rows = []
    for name, field in model.model_fields.items():
        if name in told and name != "type" and not field.is_required():
            continue
        if name == "type" and not field.is_required() and len(getattr(field.annotation, "__args__", ())) == 1:
            continue  # it can have one value only, and the heading says it
        default = "required" if field.is_required() else _default(field.get_default(call_default_factory=True))
        rows.append(f"| `{field.alias or name}` | {default} | {docs.get(name, '')} |")
    return "| field | default | meaning |\n|---|---|---|\n" + "\n".join(rows) if rows else ""


def _default(value: Any) -> str:
    if value is None or value == () or value == {} or isinstance(value, BaseModel | SecretStr):
        return ""
    return f"`{json.dumps(value, default=str)}`"


def _nested(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Models inside a model, each once, in order of appearance."""
    found: dict[type[BaseModel], None] = {}

    def walk(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if annotation not in found:
                found[annotation] = None
                for field in annotation.model_fields.values():
                    walk(field.annotation)
            return
        for argument in getattr(annotation, "__args__", ()):
            walk(argument)

    for field in model.model_fields.values():
        walk(field.annotation)
    return list(found)


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """The text below each field, from the source: reading it at import time would slow every start down."""
    docs: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        module = inspect.getmodule(cls)
        if module is not None and cls.__module__.startswith("penstock."):
            docs.update(_docs_in(module).get(cls.__name__, {}))
    return docs


@cache
def _docs_in(module: ModuleType) -> Mapping[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        fields = found.setdefault(node.name, {})
        for statement, following in zip(node.body, node.body[1:], strict=False):
            match statement, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    fields[name] = " ".join(inspect.cleandoc(text).split())
                case _:
                    pass
    return found


# JSON schemas


class DescribedSchema(GenerateJsonSchema):
    """Adds the text below each field as its description."""

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        made = super().model_schema(schema)
        cls = schema["cls"]
        docs = field_docs(cls)
        for name, field in cls.model_fields.items():
            described = made.get("properties", {}).get(field.alias or name)
            if described is not None and name in docs and "$ref" not in described:
                described["description"] = docs[name]
        for field in cls.model_fields.values():
            if isinstance(field.validation_alias, AliasChoices):
                first, *others = map(str, field.validation_alias.choices)
                made["properties"].update(dict.fromkeys(others, made["properties"][first]))
                made["required"] = [name for name in made.get("required", []) if name != first]
        if any(d.info.mode == "before" for d in cls.__pydantic_decorators__.model_validators.values()):
            # Such a model takes shorter forms, too: a word, a list, or other keys.
            loose = {key: value for key, value in made.items() if key != "required"}
            return {"anyOf": [{**loose, "additionalProperties": True}, {"type": ["string", "boolean", "array"]}]}
        return made


@cache
def project_schema() -> dict[str, Any]:
    sections: dict[str, type[FrozenModel]] = {
        "project": stream_project.ProjectHeader,
        "runtime": Runtime,
        "defaults": stream_project.Defaults,
        "rules": stream_project.Rules,
    }
    lists: dict[str, type[FrozenModel]] = {
        "sources": stream_project.Source,
        "models": stream_project.Model,
        "tests": stream_project.DataTest,
        "exposures": stream_project.Exposure,
    }
    refs, definitions = _definitions([*sections.values(), *lists.values()])
    _allow_other_forms(definitions)
    properties = {
        **{name: {"anyOf": [refs[model], {"type": "null"}]} for name, model in sections.items()},
        "vars": {"type": ["object", "null"]},
        **{name: {"type": ["array", "null"], "items": refs[model]} for name, model in lists.items()},
    }
    return _document("Penstock project", properties, definitions, required=[])


def _allow_other_forms(definitions: dict[str, Any]) -> None:
    """Let the schema take a field in its other places."""
    owners = {
        ("sources",): "Source",
        ("models",): "Model",
        ("models", "advanced"): "Advanced",
        ("models", "advanced", "spark"): "SparkJob",
        ("models", "advanced", "connector"): "ModelConnector",
    }
    for section, forms in FORMS.items():
        for form in forms:
            place = (section, *form.old[:-1])
            if form.old[0] == "event_time":
                definitions["Watermark"]["properties"].setdefault(form.old[-1], {})
                continue
            # Sources have no section `advanced` of their own.
            owner, field = ("Source", form.old[0]) if section == "sources" else (owners[place], form.old[-1])
            definition = definitions[owner]
            for part in definition.get("anyOf", [definition]):
                if "properties" in part:
                    part["properties"].setdefault(field, {"deprecated": True} if form.deprecated else {})
                    part["required"] = [name for name in part.get("required", []) if name != form.new[-1]]


def pipeline_schema() -> dict[str, Any]:
    found = list(all_connectors())
    refs, definitions = _definitions([*(c for _, c in found), *TRANSFORMS.values()])
    for definition in definitions.values():
        if "const" in definition.get("properties", {}).get("type", {}):
            definition["required"] = sorted({*definition.get("required", []), "type"})
    choices = {
        "sources": [refs[c] for role, c in found if role == "source"],
        "transforms": [refs[t] for t in TRANSFORMS.values()],
        "sinks": [refs[c] for role, c in found if role == "sink"],
    }
    properties = {
        name: {"type": ["object", "null"], "additionalProperties": {"anyOf": options}}
        for name, options in choices.items()
    }
    return _document("Penstock pipeline", properties, definitions, required=["sources", "sinks"])


def _definitions(models: list[type[Any]]) -> tuple[dict[type[Any], dict[str, Any]], dict[str, Any]]:
    wanted = [(model, "validation") for model in models]
    refs, whole = models_json_schema(wanted, by_alias=True, schema_generator=DescribedSchema)  # type: ignore[arg-type]
    return {model: dict(refs[(model, "validation")]) for model in models}, whole["$defs"]


def _document(
    title: str, properties: dict[str, Any], definitions: dict[str, Any], required: list[str]
) -> dict[str, Any]:
    head = {"$schema": SCHEMA, "title": title, "type": "object", "additionalProperties": False}
    return {**head, "properties": properties, "required": required, "$defs": definitions}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    for path, text in generated():
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
