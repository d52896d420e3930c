"""Masks on the keys of changes."""

import pytest

from tests.unit.conftest import Findings

TEXT = """
project: {{name: p}}
sources: [{{name: s, topic: t, columns: [{{name: email, type: STRING}}]}}]
models:
  - name: m
    sql: SELECT email, COUNT(*) AS n FROM {{{{ source("s") }}}} GROUP BY email
    security: {{masking: [{{column: email, policy: {policy}}}]}}
    advanced: {{spark: {{state_ttl_ms: 60000}}}}
"""


@pytest.mark.parametrize(("policy", "refused"), [("redact", True), ("'null'", True), ("hash", False)])
def test_a_mask_must_not_make_many_keys_one(project: Findings, policy: str, refused: bool) -> None:
    found = [d for d in project(TEXT.format(policy=policy)) if d.code == "sql-unsupported"]
    assert bool(found) == refused
    assert all("email" in d.message and d.hint for d in found)
