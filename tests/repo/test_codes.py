"""Every code is shown somewhere: in a golden case named after it, or by a test of the command that raises it."""

import re
from pathlib import Path

import pytest

from penstock.codes import CODES
from penstock.project.stream_project import Rules

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "golden" / "cases"
CODE = re.compile(r"^(?:error|warning|info): (?:\S+  )?([a-z]+(?:-[a-z]+)+|cycle)  ", re.MULTILINE)

ELSEWHERE = {
    "not-drained": "tests/process/test_stopping.py",
    "unknown-node": "tests/unit/test_codes_elsewhere.py",
    "test-not-run": "tests/unit/test_validate_order.py",
    "no-state": "tests/unit/test_state_command.py",
    "confirmation-needed": "tests/unit/test_codes_elsewhere.py",
    "destructive-refused": "tests/unit/test_codes_elsewhere.py",
    "not-runnable-here": "tests/unit/test_plan.py",
    "rebuild-refused": "tests/unit/test_plan.py",
    "state-elsewhere": "tests/unit/test_state_namespaces.py",
    "model-renamed": "tests/unit/test_renames.py",
    "carry-refused": "tests/unit/test_renames.py",
    "checkpoint-metadata-damaged": "tests/unit/test_checkpoint_repair.py",
    "checkpoint-offsets-damaged": "tests/unit/test_checkpoint_repair.py",
    "checkpoint-offsets-missing": "tests/unit/test_checkpoint_repair.py",
    "checkpoint-commits-damaged": "tests/unit/test_checkpoint_repair.py",
    "checkpoint-sources-damaged": "tests/unit/test_checkpoint_repair.py",
    "checkpoint-note-damaged": "tests/unit/test_checkpoint_repair.py",
    "batch-note-damaged": "tests/unit/test_checkpoint_repair.py",
    "cores-missing": "tests/unit/test_trigger.py",
    "no-row": "tests/services/test_kafka_pipelines.py",
    "key-unreadable": "tests/services/test_kafka_avro.py",
    "phase-mismatch": "tests/services/test_hybrid.py",
    "column-type": "tests/spark/test_late_sql_errors.py",
    "primary-key-assumed": "tests/services/test_clickhouse_source.py",
    "schema-incompatible": "tests/services/test_schema_registry.py",
    "connector-taken": "tests/services/test_kafka_connect.py",
    "connector-refused": "tests/services/test_kafka_connect.py",
    "connect-failed": "tests/services/test_kafka_connect.py",
    "gateway-refused": "tests/services/test_gateway.py",
    "gateway-failed": "tests/services/test_gateway.py",
    "already-running": "tests/process/test_run.py",
    "schema-unknown": "tests/unit/test_connectors.py",
    "function-failed": "tests/unit/test_function_calls.py",
    "ml-model-unreadable": "tests/spark/test_ml.py",
    "ml-model-mismatch": "tests/spark/test_ml.py",
    "not-writable": "tests/unit/test_state.py",
    "target-exists": "tests/site/test_write.py",
    "java-missing": "tests/process/test_run.py",
    "java-too-old": "tests/unit/test_codes_elsewhere.py",
    "package-missing": "tests/unit/test_codes_elsewhere.py",
    "jar-missing": "tests/unit/test_jars.py",
    "kafka-refused": "tests/services/test_kafka_admin.py",
    "kafka-failed": "tests/services/test_kafka_admin.py",
    "certificate-unreadable": "tests/services/test_kafka_admin.py",
    "clickhouse-refused": "tests/services/test_clickhouse.py",
    "clickhouse-failed": "tests/services/test_clickhouse.py",
    "dev-unknown": "tests/services/test_dev.py",
    "dev-not-started": "tests/services/test_dev.py",
    "spark-start": "tests/unit/test_codes_elsewhere.py",
    "spark-lost": "tests/process/test_run.py",
    "worker-lost": "tests/unit/test_spark_process.py",
    "table-changed": "tests/unit/test_lookup_tables.py",
    "disk-full": "tests/unit/test_spark_process.py",
    "unreachable": "tests/unit/test_codes_elsewhere.py",
    "state-unreadable": "tests/unit/test_state.py",
    "database-refused": "tests/services/test_postgres_sink.py",
    "table-mismatch": "tests/services/test_postgres_sink.py",
    "rows-refused": "tests/services/test_postgres_sink.py",
    "replication-refused": "tests/services/test_postgres_changes.py",
    "schema-changed": "tests/services/test_postgres_changes.py",
    "change-unusable": "tests/services/test_postgres_changes.py",
    "value-unsupported": "tests/services/test_postgres_changes.py",
    "rule-failed": "tests/spark/test_row_rules.py",
    "http-refused": "tests/spark/test_webhook.py",
    "http-failed": "tests/spark/test_webhook.py",
    "query-failed": "tests/unit/test_errors.py",
    "batch-conflict": "tests/spark/test_projects.py",
    "not-text": "tests/services/test_kafka_projects.py",
    "not-json": "tests/services/test_kafka_projects.py",
    "not-csv": "tests/spark/test_files.py",
    "duplicate-key": "tests/spark/test_bad_records.py",
    "field-mismatch": "tests/services/test_kafka_projects.py",
    "no-value": "tests/services/test_kafka_projects.py",
    "unknown-operation": "tests/services/test_kafka_pipelines.py",
    "not-avro": "tests/services/test_kafka_avro.py",
    "schema-id-unknown": "tests/services/test_kafka_avro.py",
    "avro-unreadable": "tests/services/test_kafka_avro.py",
    "registry-refused": "tests/services/test_kafka_settings.py",
    "schema-refused": "tests/services/test_kafka_pipelines.py",
    "records-gone": "tests/services/test_kafka_faults.py",
    "topic-missing": "tests/services/test_kafka_projects.py",
    "event-time-null": "tests/spark/test_event_time.py",
    "event-time-future": "tests/spark/test_event_time.py",
}
"""Codes that `validate` does not give, and the file with the test that asserts each of them."""


def shown_in(case: str) -> set[str]:
    """The codes of the diagnostics that a golden case expects."""
    file = CASES / case / "expected" / "diagnostics.txt"
    return set(CODE.findall(file.read_text(encoding="utf-8"))) if file.is_file() else set()


@pytest.mark.parametrize("code", [code for code in CODES if code not in ELSEWHERE])
def test_a_golden_case_is_named_after_the_code_and_shows_it(code: str) -> None:
    word = code.replace("-", "_")
    cases = [case for case in (f"invalid_{word}", f"notes_{word}") if (CASES / case).is_dir()]
    assert cases, f"write tests/golden/cases/invalid_{word} (or notes_{word}), or add `{code}` to ELSEWHERE"
    for case in cases:
        assert code in shown_in(case), case


@pytest.mark.parametrize(("code", "file"), ELSEWHERE.items())
def test_what_no_golden_case_can_show_is_asserted_elsewhere(code: str, file: str) -> None:
    assert code in CODES
    assert f'"{code}"' in (ROOT / file).read_text(encoding="utf-8")


def test_no_code_is_said_to_be_elsewhere_when_a_golden_case_shows_it() -> None:
    shown = {code for case in CASES.iterdir() for code in shown_in(case.name)}
    assert shown <= CODES.keys()
    assert shown & ELSEWHERE.keys() == set()


def test_every_rule_is_broken_once_in_its_golden_case() -> None:
    text = (CASES / "invalid_rule_broken" / "expected" / "diagnostics.txt").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(rule `([\w.]+)`", text)) == sorted(Rules.names())
