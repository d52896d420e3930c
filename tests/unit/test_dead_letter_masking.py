"""Values that nobody may see, in dead letters and in the texts of errors."""

import logging
import re
import sys

import pytest

from penstock.clients.dead_letters.masking import mask_reason, mask_text, mask_value
from penstock.clients.kafka.decode import FAULTS
from penstock.clients.masked_answers import IN_WORKERS, WITHHELD_TEXT, mask_in_worker
from penstock.errors import PenstockError, QueryFailed, ServiceError
from penstock.runtime.dead_letters.masking import mask_failure
from penstock.runtime.spark import masked_log
from tests.unit.conftest import Compile


@pytest.mark.parametrize(
    "text",
    [
        """[CAST_INVALID_INPUT] The value 'ada@x' of the type "STRING" cannot be cast to "INT" because it is wrong.""",
        "duplicate key value violates unique constraint: Key (email)=(ada@x) already exists.",
        "3 rows were found: [NUMERIC_VALUE_OUT_OF_RANGE] ada cannot be represented as Decimal(5, 2)",
        'invalid input syntax for type integer: "ada@x"',
        "Failing row contains (1, ada@x, 2).",
        """the record {"id": 1, "email": "ada@x"} cannot be read""",
    ],
)
def test_the_text_of_an_error_shows_no_value(text: str) -> None:
    assert "ada" not in mask_text(text)


def test_the_name_of_an_error_of_spark_stays() -> None:
    assert mask_text("[DIVIDE_BY_ZERO] Division by zero.").startswith("[DIVIDE_BY_ZERO] ")


POSTGRES = "PostgreSQL at db:5432/shop does not take a row:"
CLICKHOUSE = "ClickHouse at http://db:8123 does not take a row:"
ANSWERS = [
    (
        f'{POSTGRES} duplicate key value violates unique constraint "t_email_key"; Key (email)=(ada@x) already exists.',
        f'{POSTGRES} duplicate key value violates unique constraint "t_email_key" {WITHHELD_TEXT}',
    ),
    (
        f'{POSTGRES} new row for relation "t" violates check constraint "c"; Failing row contains (1, ada@x, 3).',
        f'{POSTGRES} new row for relation "t" violates check constraint "c" {WITHHELD_TEXT}',
    ),
    (
        f'{POSTGRES} invalid input syntax for type json; Token "ada" is invalid.; JSON data, line 1: ada...',
        f"{POSTGRES} invalid input syntax for type json {WITHHELD_TEXT}",
    ),
    (
        f"{POSTGRES} row 5 has email ada@x [E1]; PL/pgSQL function m.r() line 1 at RAISE",
        f"{POSTGRES} {WITHHELD_TEXT}",
    ),
    (
        "PostgreSQL at db:5432/shop: no ada; PL/pgSQL function m.r() line 1 at RAISE",
        f"PostgreSQL at db:5432/shop: {WITHHELD_TEXT}",
    ),
    (
        f"{CLICKHOUSE} Code: 469. DB::Exception: Constraint `c` for table shop.t (5689-5a7b) is violated at row 1."
        " Expression: (email != 'x'). Column values: email = ada. (VIOLATED_CONSTRAINT) (version 26.9 (official))",
        f"{CLICKHOUSE} Code: 469. DB::Exception: Constraint `c` for table shop.t (VIOLATED_CONSTRAINT) {WITHHELD_TEXT}",
    ),
    (f"{CLICKHOUSE} Code: 27. DB::Exception: ada (cut", f"{CLICKHOUSE} Code: 27. {WITHHELD_TEXT}"),
    (
        "column `n` of table `t` is Int8: Integer value ada not in range: -128 to 127",
        f"column `n` of table `t` is Int8: {WITHHELD_TEXT}",
    ),
    ("http://hook:80 answered 422 No ada: ada", f"http://hook:80 answered 422 {WITHHELD_TEXT}"),
    (
        "http://hook:80 answered 422: no\nada@x (1 rows of `model.m`)",
        f"http://hook:80 answered 422 (1 rows of `model.m`) {WITHHELD_TEXT}",
    ),
    ("no such row: ada", WITHHELD_TEXT),
    ("it cannot be computed: CAST(`email` AS INT)", "it cannot be computed: CAST(`email` AS INT)"),
    ("[DIVIDE_BY_ZERO] ada", f"[DIVIDE_BY_ZERO] {WITHHELD_TEXT}"),
]
"""What other systems have said of rows, and what stays of it."""


@pytest.mark.parametrize(("text", "covered"), ANSWERS)
def test_of_what_another_system_says_of_a_row_only_names_and_codes_stay(text: str, covered: str) -> None:
    assert mask_reason("row-refused", text) == covered
    assert mask_reason("row-refused", covered) == covered


@pytest.mark.parametrize(
    "failure",
    [
        QueryFailed("http-refused", "http://hook:80 answered 422 Unprocessable: email ada (1 rows of `model.m`)"),
        ServiceError("http-failed", "http://hook:80 answered 503 Busy: email ada", retriable=True),
        ServiceError("database-refused", "PostgreSQL at db: no ada; PL/pgSQL function m.r() line 1 at RAISE"),
        ServiceError("clickhouse-failed", "ClickHouse at http://db:8123 says 500: Code: 6. DB::Exception: ada. (X)"),
        QueryFailed("query-failed", "ValueError: ada is no number", internal=True),
        QueryFailed("query-failed", "ada is no number", internal=True),
    ],
)
def test_what_stops_a_query_quotes_no_answer(project_manifest: Compile, failure: PenstockError) -> None:
    model = f"  - {{name: m, sql: 'SELECT id, email AS contact FROM {{{{ source(\"s\") }}}}', {MASKED}}}\n"
    query = project_manifest(HEAD + model).query("m")
    assert "ada" not in mask_failure(query, failure).message
    assert WITHHELD_TEXT in failure.message


def test_a_worker_prints_no_answer_where_the_log_is_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "http://hook:80 answered 422 No: ada"
    assert mask_in_worker(text) == text
    monkeypatch.setenv(IN_WORKERS, "1")
    assert "ada" not in mask_in_worker(text)


def test_values_are_covered_at_any_depth_and_what_is_no_object_is_left_out() -> None:
    value = b'{"id": 1, "Email": "a", "before": {"email": "b"}, "list": [{"email": "c"}]}'
    assert mask_value(value, {"email"}) == (
        '{"id": 1, "Email": "***", "before": {"email": "***"}, "list": [{"email": "***"}]}'
    )
    for other in (b"ada@x", b'["ada@x"]', b"\xff", None):
        assert mask_value(other, {"email"}) is None


HEAD = """
project: {name: p}
sources:
  - name: s
    topic: t
    columns:
      - {name: id, type: BIGINT}
      - {name: email, type: STRING}
      - {name: ssn, type: STRING, classification: highly_sensitive}
      - {name: city, type: STRING, classification: internal}
models:
"""
MASKED = "security: {masking: [{column: contact, policy: hash}]}"


def test_masked_and_sensitive_columns_are_covered_under_every_name_they_have(project_manifest: Compile) -> None:
    model = f"  - {{name: m, sql: 'SELECT id, UPPER(email) AS contact FROM {{{{ source(\"s\") }}}}', {MASKED}}}\n"
    assert project_manifest(HEAD + model).query("m").covers == ("contact", "email", "ssn")


def test_an_output_that_is_made_from_a_sensitive_column_is_covered(project_manifest: Compile) -> None:
    model = "  - {name: m, sql: 'SELECT city, MAX(ssn) AS last FROM {{ source(\"s\") }} GROUP BY city'}\n"
    assert project_manifest(HEAD + model).query("m").covers == ("last", "ssn")


def test_what_was_masked_before_is_not_covered_again(project_manifest: Compile) -> None:
    models = (
        "  - {name: a, sql: 'SELECT id, ssn FROM {{ source(\"s\") }}',"
        " security: {masking: [{column: ssn, policy: hash}]}}\n"
        "  - {name: b, sql: 'SELECT id, ssn FROM {{ ref(\"a\") }}'}\n"
    )
    manifest = project_manifest(HEAD + models)
    assert manifest.query("a").covers == ("ssn",)
    assert manifest.query("b").covers == ()
    assert "covers" not in manifest.query("a").to_document()


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("`email`: `ada` is not a BIGINT` is not a BIGINT", "`email`: `***` is not a BIGINT"),
        (
            "a record of `people` cannot be read: `n`: `ada` is not a DECIMAL(5,2) without rounding",
            "a record of `people` cannot be read: `n`: `***` is not a DECIMAL(5,2) without rounding",
        ),
        (
            "a record of `s` cannot be read: Unrecognized token ada",
            "a record of `s` cannot be read: " + FAULTS["not-json"],
        ),
        ("Numeric value (ada) out of range", FAULTS["not-json"]),
    ],
)
def test_of_our_own_reasons_the_field_and_its_type_stay(text: str, covered: str) -> None:
    assert mask_reason("not-json", text) == covered


LOGGED = """Lost task 0.0 in stage 0.0 (driver): org.apache.spark.SparkException: [CAST_INVALID_INPUT] The value 'it's
ada@x' of the type "STRING" cannot be cast
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.invalid(QueryExecutionErrors.scala:148)
Caused by: java.lang.NumberFormatException: For input string: ada@x
\t... 12 more
"""


def test_the_log_of_spark_has_names_and_stacks_of_errors_and_no_values() -> None:
    text = LOGGED
    for pattern, cover in masked_log.PARTS:
        text = re.sub(pattern, cover.replace("$1", r"\1"), text)
    assert text.splitlines() == [
        "Lost task 0.0 in stage 0.0 (driver): org.apache.spark.SparkException: [CAST_INVALID_INPUT]",
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.invalid(QueryExecutionErrors.scala:148)",
        "Caused by: java.lang.NumberFormatException",
        "\t... 12 more",
    ]


def test_an_error_that_python_logs_has_its_class_and_its_stack() -> None:
    try:
        raise ValueError("ada@x")
    except ValueError:
        record = logging.LogRecord("py4j", logging.ERROR, "", 1, "It failed: 'ada@x'.", None, sys.exc_info())
    text = masked_log.MaskedFormatter().format(record)
    assert "ada@x" not in text.replace('raise ValueError("ada@x")', "")
    assert text.endswith("ValueError")
