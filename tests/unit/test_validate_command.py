"""What `validate --format json` prints about a pipeline."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from tests.support import write

SOUND = """\
sources: {orders: {type: generator, batch_size: 5, columns: {id: {kind: sequence}}}}
sinks: {shown: {type: print, from: orders}}
"""


def validated(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["validate", *arguments, "--format", "json"])
    return result.exit_code, json.loads(result.stdout)


def test_errors_are_texts_and_the_check_was_made(tmp_path: Path) -> None:
    write(tmp_path, {"p.yml": SOUND.replace("from: orders", "from: order")})
    code, report = validated("p.yml")
    assert (code, report["success"], report["is_valid"]) == (2, True, False)
    assert [text for text in report["errors"] if "source 'order' not found" in text] == report["errors"][:1]
    assert all(isinstance(text, str) for text in (*report["errors"], *report["warnings"]))
    assert [found["code"] for found in report["diagnostics"]] == ["no-effect", "unknown-upstream"]


def test_notes_of_a_sound_pipeline_are_texts(tmp_path: Path) -> None:
    write(tmp_path, {"p.yml": SOUND})
    code, report = validated("p.yml")
    assert (code, report["success"], report["is_valid"], report["errors"]) == (0, True, True, [])
    (text,) = report["warnings"]
    assert "sources.orders.batch_size" in text


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["gone.yml"], {}),
        ([], {}),
        ([], {"config.yaml": "colour: red\n"}),
        (["--var", "nothing"], {"pipeline.yaml": SOUND}),
        (["p.yml", "--config", "gone"], {"p.yml": SOUND}),
    ],
)
def test_errors_are_texts_also_where_there_is_no_pipeline_to_look_at(
    arguments: list[str], files: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path, files)
    code, report = validated(*arguments)
    assert (code, report["success"], report["is_valid"]) == (2, True, False)
    assert report["errors"] == [str(text) for text in report["errors"]]
    assert len(report["errors"]) == len([found for found in report["diagnostics"] if found["severity"] == "error"]) > 0


def test_errors_of_a_project_are_objects_whatever_is_wrong(tmp_path: Path) -> None:
    write(tmp_path, {"stream_project.yml": "project: {name: p}\ncolour: red\n"})
    for arguments in ([], ["."], ["stream_project.yml"], ["--config", "gone"]):
        code, report = validated(*arguments)
        assert (code, [type(error) for error in report["errors"]]) == (2, [dict] * len(report["errors"]))


def test_a_check_that_could_not_be_made_was_no_success(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "p.yml": "sources: {t: {type: kafka, topic: t}}\nsinks: {o: {type: blackhole, from: t}}\n",
            "config.yaml": "kafka_source: {schema_registry_url: 'http://127.0.0.1:1'}\n",
        },
    )
    code, report = validated("p.yml", "--check-schemas")
    assert (code, report["success"], report["is_valid"], report["warnings"]) == (4, False, False, [])
    assert report["error"]["code"] in report["errors"][0]
    assert (report["error"]["node"], report["error"]["context"]) == ("t", ["source 't': failed to fetch its schema"])


def test_a_table_that_cannot_be_asked_about_is_named_by_its_source(tmp_path: Path) -> None:
    source = "sources: {raw.t: {type: clickhouse, table_name: t}}\nsinks: {o: {type: blackhole, from: raw.t}}\n"
    write(tmp_path, {"p.yml": source, "config.yaml": "clickhouse_source: {url: 'http://127.0.0.1:1'}\n"})
    code, report = validated("p.yml", "--check-schemas")
    assert (code, report["error"]["node"]) == (4, "raw.t")
    assert report["error"]["chain"][0] == "source 'raw.t': failed to read the definition of its table"
