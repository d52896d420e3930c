"""Splits the manifest into files for people and other tools."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock.keyed.operators import describe_operator
from penstock.manifest.model import KeyedStep, Manifest, QuerySpec, Step
from penstock.manifest.part import Part
from penstock.project.yaml.secrets import mask_secrets
from penstock.sql.rewrite.render import format_sql

MANIFEST: Final = "manifest.json"
INDEX: Final = "files.json"
_LONGEST: Final = 100
_DIRECTORIES: Final = ("topics", "spark", "connect", "gateway", "schemas")


def artifacts(manifest: Manifest) -> dict[str, str]:
    """The texts by relative path, the manifest last. Equal manifests give equal texts."""
    files: dict[str, str] = {}
    for schema in manifest.schemas:
        files[f"schemas/{file_name(schema.subject)}.json"] = _json(schema)
    for topic in manifest.topics:
        files[f"topics/{file_name(topic.name)}.json"] = _json(topic)
    for query in manifest.queries:
        files[f"spark/{file_name(query.name)}.json"] = _json(query)
        files[f"spark/{file_name(query.name)}.sql"] = _script(query)
    for connector in manifest.connectors:
        files[f"connect/{file_name(connector.name)}.json"] = _json(connector)
    for rule in manifest.gateway_rules:
        files[f"gateway/{file_name(rule.name)}.json"] = _json(rule)
    files[INDEX] = json.dumps(sorted([*files, INDEX, MANIFEST]), indent=2) + "\n"
    return {**files, MANIFEST: manifest.to_json()}


def written_files(folder: Path) -> set[str]:
    """The files that an earlier run recorded as written. Nothing else is ever removed."""
    try:
        listed = json.loads((folder / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    if not isinstance(listed, list):
        return set()
    return {name for name in listed if isinstance(name, str) and _is_ours(name)}


def _is_ours(name: str) -> bool:
    directory, _, file = name.partition("/")
    return directory in _DIRECTORIES and file not in ("", ".", "..") and "/" not in file and "\\" not in file


def file_name(name: str) -> str:
    """A safe file name of limited length. Different names give different file names."""
    plain = quote(name, safe=" ")
    plain = plain.replace(".", "%2E", 1) if plain.startswith(".") else plain
    if len(plain) <= _LONGEST and plain == plain.lower():
        return plain
    return f"{plain[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _json(part: Part) -> str:
    body: Any = mask_secrets(part.model_dump(mode="json", by_alias=True))
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _script(query: QuerySpec) -> str:
    """The SQL for Spark, step by step, with comments."""
    inputs = [f"-- reads {entry.view}{_event_time(entry)}" for entry in query.inputs]
    steps = [_step(step) for step in query.steps]
    outputs = [f"-- {o.view} goes to {o.sink['type']} {o.sink.get('topic', '')}".rstrip() for o in query.outputs]
    return "\n".join([*inputs, *steps, *outputs]) + "\n"


def _step(step: Step | KeyedStep) -> str:
    if isinstance(step, Step):
        return f"-- {step.view}\n{format_sql(step.sql)};"
    return f"-- {step.view}: {describe_operator(step.operator)} over {', '.join(step.inputs)}"


def _event_time(entry: Any) -> str:
    time = entry.event_time
    return f", event time {time.column}, {time.delay_ms} ms for late rows" if time else ""
