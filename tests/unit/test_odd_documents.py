"""Whatever stands in a document, the answer is a list of diagnostics, never a crash."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import ProjectInvalid
from penstock.workflow.stages import Target, check, compile_project

GOOD = """
project: {name: shop, version: "1"}
vars: {least: 1}
defaults: {topic: {partitions: 3, config: {retention.ms: 1}}, tests: {sample_size: 10}}
rules:
  topics: {min_partitions: 2, naming_pattern: "[a-z_.0-9]+"}
  models: {required_tags: [tier]}
  security: {sensitive_columns_require_masking: true, pii_column_patterns: [email]}
runtime: {spark: {config: {spark.x: 1}}}
sources:
  - name: orders
    topic: orders.v1
    tags: [a]
    schema: {format: avro, definition: '{"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]}'}
    columns:
      - {name: id, type: BIGINT, tests: [not_null, {accepted_values: {values: [1]}}]}
      - {name: email, type: STRING, classification: sensitive}
      - {name: at, type: TIMESTAMP(3)}
    event_time: {column: at, watermark: {max_out_of_orderness_ms: 5}}
    freshness: {warn_after: 5m, max_lag_seconds: 600}
models:
  - name: clean
    tags: [tier-1]
    access: {level: protected, allowed_groups: [x]}
    group: x
    key: id
    columns: [{name: id, type: BIGINT}]
    sql: SELECT id, email, at FROM {{ source("orders") }} WHERE id > {{ var("least") }}
    security: {masking: [{column: email, policy: hash, config: {algorithm: sha256, salt: s}}]}
    advanced: {topic: {name: clean.v1, partitions: 4}, flink: {parallelism: 2, checkpoint_interval: 5}}
    waivers: [{rule: models.require_owner, reason: r, until: 2999-01-01}]
  - name: hourly
    tags: [tier-2]
    group: x
    sql: SELECT COUNT(*) AS n FROM {{ ref("clean") }} GROUP BY TUMBLE(at, INTERVAL '1' HOUR)
    ml_outputs: {m: {score: DOUBLE}}
  - name: out
    tags: [tier-3]
    group: x
    from: [{ref: clean}]
    connector: {type: file, config: {path: out, format: json}}
tests:
  - name: t
    model: clean
    type: schema
    assertions: [{not_null: {columns: [id]}}, {accepted_types: {types: {id: bigint}}}, {range: {column: id, min: 1}}]
    on_failure: [{alert: {channel: slack}}, {dlq: {topic: d}}]
exposures:
  - {name: e, type: api, group: x, consumes: [{ref: clean}], sla: {availability: 99.9%}, contacts: [{name: n}]}
"""
JUNK: tuple[Any, ...] = (
    None, True, -1, 3.5, "", " ", "x", "${NOPE}", "{{ x", "a\nb", "é💥", "'`\"", [], [None], ["x"], [["x"]], [{}], {},
    {"x": None}, {"name": {}}, {"a": {"b": ["c"]}}, 10**30, "x" * 300, "SELECT", "SELECT * FROM", "\ud800",
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from _places(value[key], (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _places(item, (*path, position))


def _changed(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    whole = copy.deepcopy(value)
    inner = whole
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = junk
    return whole


def _answers(folder: Path) -> None:
    try:
        compile_project(check(Target(folder, remember=False))).to_json()
    except ProjectInvalid as invalid:
        str(invalid)


def test_the_document_that_is_changed_is_sound(tmp_path: Path) -> None:
    (tmp_path / "stream_project.yml").write_text(GOOD)
    assert check(Target(tmp_path, remember=False)).graph.tests


@pytest.mark.parametrize("seed", range(3))
def test_a_value_of_any_kind_in_any_place_gives_diagnostics(tmp_path: Path, seed: int) -> None:
    good = yaml.safe_load(GOOD)
    places = list(_places(good))
    chance = random.Random(seed)
    file = tmp_path / "stream_project.yml"
    for _ in range(80):
        document = _changed(good, chance.choice(places), chance.choice(JUNK))
        file.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8", errors="surrogatepass")
        _answers(tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_sql_that_lost_or_found_words_gives_diagnostics(tmp_path: Path, seed: int) -> None:
    good = yaml.safe_load(GOOD)
    chance = random.Random(seed)
    words = [
        "SELECT", "FROM", "WHERE", "GROUP BY", "(", ")", ",", "*", "AS", "JOIN", "ON", "UNION ALL", "'", "`", "OVER",
        ".", "LATERAL VIEW", "explode(id)", '{{ source("orders") }}', "WITH x AS", "INTERVAL", "::", "VALUES", "1",
    ]  # fmt: skip
    file = tmp_path / "stream_project.yml"
    for _ in range(60):
        text = chance.choice(good["models"][:2])["sql"].split(" ")
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(text))
            text[at : at + chance.randint(0, 2)] = chance.sample(words, chance.randint(0, 2))
            text = text or ["x"]
        document = _changed(good, ("models", 0, "sql"), " ".join(text))
        file.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        _answers(tmp_path)
