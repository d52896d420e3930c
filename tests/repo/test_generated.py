"""What is made from the code is as the code is now."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from scripts.generate_docs import generated, pipeline_schema, project_schema

from penstock.project.yaml.read import read_document

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples" / "quickstart"


@pytest.mark.parametrize(("path", "text"), [pytest.param(path, text, id=path) for path, text in generated()])
def test_generated_files_are_fresh(path: str, text: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == text, "run `make docs`"


@pytest.mark.parametrize("path", sorted(p for p in QUICKSTART.rglob("*.yml") if ".penstock" not in p.parts))
def test_the_quickstart_fits_the_schemas_for_editors(path: Path) -> None:
    schema = pipeline_schema() if path.name == "feed.yml" else project_schema()
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(yaml.safe_load(path.read_text(encoding="utf-8")))


SOUND = sorted(
    file
    for case in (ROOT / "tests" / "golden" / "cases").iterdir()
    if not case.name.startswith("invalid") and (case / "stream_project.yml").exists()
    for file in case.rglob("*.yml")
    if "environments" not in file.parts
)


@pytest.mark.parametrize("path", SOUND, ids=lambda path: "/".join(path.parts[-3:]))
def test_every_sound_document_fits_the_schema_for_editors(path: Path) -> None:
    document, _ = read_document(path, path.name)
    assert document is not None
    Draft202012Validator(project_schema()).validate(document.value)


def test_a_wrong_document_does_not_fit_the_schema() -> None:
    wrong = {"sources": {"a": {"type": "file", "path": "x", "formt": "json"}}, "sinks": {}}
    assert not Draft202012Validator(pipeline_schema()).is_valid(wrong)


@pytest.mark.parametrize("schema", [project_schema(), pipeline_schema()], ids=["project", "pipeline"])
def test_every_field_that_a_person_can_write_is_described(schema: dict[str, Any]) -> None:
    undescribed = [
        f"{name}.{field}"
        for name, definition in schema["$defs"].items()
        for part in definition.get("anyOf", [definition])
        for field, described in part.get("properties", {}).items()
        if described and "description" not in described and "$ref" not in described and field not in ("type", "kind")
        if described != {"deprecated": True}
    ]
    assert undescribed == []


def test_the_reference_has_fields_that_are_called_type_unless_the_heading_says_it() -> None:
    texts = dict(generated())
    column = texts["docs/reference/project.md"].partition("### `ColumnSpec`")[2].partition("###")[0]
    assert "| `type` |  | An SQL type" in column
    topic = texts["docs/reference/connectors.md"].partition("## source `topic`")[2].partition("\n## ")[0]
    assert '| `type` | `"topic"` |' not in topic
