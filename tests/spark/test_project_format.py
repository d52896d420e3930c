"""What the project format asks of Spark beyond plain SQL: masks, assumed times, variables, settings of a query."""

import hashlib
import hmac
from typing import Any

import pytest

from penstock.errors import PlanRefused
from tests.spark.running import ORDERS, Running, order

PEOPLE = """
sources:
  - name: people
    topic: people.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: email, type: STRING, classification: sensitive}
      - {name: phone, type: STRING}
"""
ROWS: list[dict[str, Any]] = [
    {"id": 1, "email": "ann@example.com", "phone": "0123456789"},
    {"id": 2, "email": "", "phone": "12"},
    {"id": 3, "email": "jürgen@例え.jp", "phone": "ÄÖÜßéß"},
    {"id": 4, "email": None, "phone": None},
]


def _masked(running: Running, masking: str, sql: str) -> dict[int, dict[str, Any]]:
    running.write(
        {
            "sources/people.yml": PEOPLE,
            "stream_project.yml": f"""
            project: {{name: people}}
            models:
              - name: safe
                sql: {sql}
                security:
                  masking: {masking}
            """,
        }
    )
    running.drop("people.v1", "a.jsonl", ROWS)
    running.run()
    return {row["id"]: row for row in running.topic("safe")}


ALL = 'SELECT * FROM {{ source("people") }}'


def test_a_hash_is_md5_unless_another_is_asked_for(running: Running) -> None:
    rows = _masked(running, "[{column: email, policy: hash}]", ALL)
    for row in ROWS[:3]:
        assert rows[row["id"]]["email"] == hashlib.md5(row["email"].encode()).hexdigest()
    assert rows[4]["email"] is None


def test_a_salted_hash_takes_its_salt_from_the_environment(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "it's\\salty")
    config = "{algorithm: sha256, salt: '${SALT}'}"
    rows = _masked(running, f"[{{column: email, policy: hash, config: {config}}}]", ALL)
    assert rows[1]["email"] == hashlib.sha256(b"it's\\saltyann@example.com").hexdigest()


def test_partial_shows_the_last_characters_and_nothing_of_a_short_value(running: Running) -> None:
    rows = _masked(running, "[{column: phone, policy: partial, config: {visible_chars: 4}}]", ALL)
    assert [rows[n]["phone"] for n in (1, 2, 3, 4)] == ["******6789", "**", "**Üßéß", None]


def test_redacted_and_nulled_values_are_gone(running: Running) -> None:
    rows = _masked(running, "[{column: email, policy: redact}, {column: phone, policy: 'null'}]", ALL)
    assert [rows[n]["email"] for n in (1, 2, 3, 4)] == ["***", "***", "***", None]
    assert {row["phone"] for row in rows.values()} == {None}


@pytest.mark.parametrize("key", ["short", "x" * 100])
def test_a_token_is_keyed_and_the_same_for_equal_values(
    running: Running, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN_KEY", key)
    rows = _masked(running, "[{column: email, policy: tokenize}]", ALL)
    for row in ROWS[:3]:
        digest = hmac.new(key.encode(), row["email"].encode(), hashlib.sha256).hexdigest()
        assert rows[row["id"]]["email"] == f"tok_{digest[:32]}"
    assert rows[4]["email"] is None
    state = (running.root / ".penstock" / "state.db").read_bytes()
    assert key.encode() not in state


def test_without_its_key_a_query_is_refused_before_anything_starts(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_TOKEN_KEY", raising=False)
    with pytest.raises(PlanRefused) as refused:
        _masked(running, "[{column: email, policy: tokenize}]", ALL)
    assert refused.value.code == "unset-variable"


def test_a_mask_follows_a_column_that_has_another_name(running: Running) -> None:
    sql = "SELECT id, LOWER(email) AS contact, email AS copy FROM {{ source('people') }}"
    rows = _masked(running, "[{column: email, policy: redact}]", f'"{sql}"')
    assert (rows[1]["contact"], rows[1]["copy"]) == ("***", "***")


def test_a_filter_sees_the_value_and_not_its_mask(running: Running) -> None:
    sql = "\"SELECT id, email FROM {{ source('people') }} WHERE email LIKE 'ann%'\""
    rows = _masked(running, "[{column: email, policy: redact}]", sql)
    assert list(rows) == [1]


def test_a_masked_aggregate_and_its_view_are_masked_for_their_readers(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: per_country
                sql: |
                  SELECT country, TUMBLE_START(at, INTERVAL '1' MINUTE) AS minute, COUNT(*) AS n
                  FROM {{ ref("hidden") }}
                  GROUP BY country, TUMBLE(at, INTERVAL '1' MINUTE)
                security: {masking: [{column: n, policy: partial, config: {visible_chars: 0}}]}
              - name: hidden
                materialized: virtual_topic
                sql: SELECT id, country, at FROM {{ source("orders") }}
                security: {masking: [{column: country, policy: hash}]}
            """,
        }
    )
    times = ["00:00:10", "00:00:50", "00:03:00"]
    running.drop("orders.v1", "a.jsonl", [order(n, at=f"2026-01-01T{t}Z") for n, t in enumerate(times)])
    running.run()
    (row,) = running.topic("per_country")
    assert (row["country"], row["n"]) == (hashlib.md5(b"DE").hexdigest(), "*")


def test_a_window_over_a_column_that_nobody_declared_as_time_runs(running: Running) -> None:
    running.write(
        {
            "stream_project.yml": """
            project: {name: shop}
            sources: [{name: clicks, topic: clicks.v1}]
            models:
              - name: per_minute
                sql: |
                  SELECT user_id, COUNT(*) AS n FROM {{ source("clicks") }}
                  GROUP BY user_id, TUMBLE(at, INTERVAL '1' MINUTE)
            """,
        }
    )
    times = ["00:00:10", "00:00:50", "00:03:00"]
    running.drop("clicks.v1", "a.jsonl", [{"user_id": 1, "at": f"2026-01-01T{t}Z"} for t in times])
    running.run()
    assert running.topic("per_minute") == [{"user_id": 1, "n": 2}]


def test_variables_macros_and_sql_files_reach_spark(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTRY", "FR")
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": "project: {name: shop}\nvars: {least: 5}\n",
            "macros/money.sql": "{% macro cents(c) %}CAST({{ c }} * 100 AS BIGINT){% endmacro %}",
            "models/large.sql": (
                "SELECT id, {{ cents('amount') }} AS cents FROM {{ source('orders') }}\n"
                "WHERE amount >= {{ var('least') }} AND country = '${COUNTRY}'"
            ),
        }
    )
    running.drop("orders.v1", "a.jsonl", [order(1, country="FR"), order(2), order(3, country="FR", amount=1)])
    running.run()
    assert running.topic("large") == [{"id": 1, "cents": 1000}]


def test_the_time_of_processing_is_filled_in(running: Running) -> None:
    running.write(
        {
            "stream_project.yml": """
            project: {name: shop}
            sources:
              - name: orders
                topic: orders.v1
                columns: [{name: id, type: BIGINT}, {name: seen, type: TIMESTAMP(3), proctime: true}]
            models:
              - name: seen
                sql: SELECT id, seen IS NOT NULL AS has_time FROM {{ source("orders") }}
            """,
        }
    )
    running.drop("orders.v1", "a.jsonl", [{"id": 1}])
    running.run()
    assert running.topic("seen") == [{"id": 1, "has_time": True}]


def test_parallelism_and_state_backend_are_those_of_the_model(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - name: per_minute
                sql: |
                  SELECT country, COUNT(*) AS n FROM {{ source("orders") }}
                  GROUP BY country, TUMBLE(at, INTERVAL '1' MINUTE)
                advanced: {flink: {parallelism: 3, state_backend: hashmap}}
            """,
        }
    )
    running.drop("orders.v1", "a.jsonl", [order(1), order(2, at="2026-01-01T00:05:00Z")])
    running.run()
    state = running.place.checkpoint("per_minute") / "state" / "0"
    partitions = [path for path in state.iterdir() if path.name.isdigit()]
    assert len(partitions) == 3
    assert any(path.suffix == ".delta" for path in partitions[0].iterdir())


def test_a_model_whose_sql_cannot_run_is_refused_by_the_plan_and_others_can_be_chosen(running: Running) -> None:
    running.write(
        {
            "sources/orders.yml": ORDERS,
            "stream_project.yml": """
            project: {name: shop}
            models:
              - {name: plain, sql: 'SELECT id FROM {{ source("orders") }}'}
              - {name: ranks, sql: 'SELECT RANK() OVER (PARTITION BY id ORDER BY at) AS r FROM {{ source("orders") }}'}
            """,
        }
    )
    running.drop("orders.v1", "a.jsonl", [order(1)])
    with pytest.raises(PlanRefused) as refused:
        running.run()
    assert refused.value.code == "sql-unsupported"
    running.run(select=["plain"])
    assert running.topic("plain") == [{"id": 1}]


def test_several_inputs_are_put_together_by_name(running: Running) -> None:
    running.write(
        {
            "stream_project.yml": """
            project: {name: shop}
            sources:
              - {name: a, topic: a, columns: [{name: id, type: STRING}, {name: email, type: STRING}]}
              - {name: b, topic: b, columns: [{name: email, type: STRING}, {name: id, type: STRING}]}
            models:
              - name: both
                materialized: topic
                from: [{source: a}, {source: b}]
                security: {masking: [{column: email, policy: redact}]}
            """,
        }
    )
    running.drop("a", "a.jsonl", [{"id": "1", "email": "x@y"}])
    running.drop("b", "b.jsonl", [{"id": "2", "email": "x@y"}])
    running.run()
    rows = sorted(running.topic("both"), key=lambda row: str(row["id"]))
    assert rows == [{"id": "1", "email": "***"}, {"id": "2", "email": "***"}]


def test_an_output_without_a_name_beside_a_star_can_be_masked(running: Running) -> None:
    rows = _masked(running, "[{column: email, policy: redact}]", "\"SELECT *, id + 1 FROM {{ source('people') }}\"")
    assert (rows[1]["email"], rows[1]["_col_1"]) == ("***", 2)
