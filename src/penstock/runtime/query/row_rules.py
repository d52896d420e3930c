"""Splits the rows of a batch by the rules of data tests."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.errors import QueryFailed
from penstock.manifest.model import QueryOutput, RowRule
from penstock.row_columns import OP
from penstock.sql.lint.gate import check_expression

BROKEN: Final = "_broken"
"""The description of the first rule that a row breaks."""


def mark_broken_rules(rows: DataFrame, rules: Sequence[RowRule]) -> DataFrame:
    """Add a column with the first rule that each row breaks. A delete breaks none."""
    register_row_functions(rows.sparkSession, " ".join(rule.condition for rule in rules))
    is_delete = f.lower(OP) == "d" if OP in rows.columns else f.lit(False)
    checks = [
        f.when(~f.coalesce(f.expr(check_expression(rule.condition)), f.lit(True)), f.lit(f"{rule.test}: {rule.said}"))
        for rule in rules
    ]
    return rows.withColumn(BROKEN, f.when(~f.coalesce(is_delete, f.lit(False)), f.coalesce(*checks, f.lit(None))))


def passing_rows(rows: DataFrame) -> DataFrame:
    return rows.where(f.col(BROKEN).isNull()).drop(BROKEN)


def breaking_rows(rows: DataFrame) -> DataFrame:
    return rows.where(f.col(BROKEN).isNotNull())


def rule_failure(rows: DataFrame, output: QueryOutput) -> QueryFailed:
    """Return the error that ends a query whose rows must not break rules."""
    first = breaking_rows(rows).select(BROKEN).first()
    assert first is not None
    hint = "mend the rows, or set `on_error: dead_letter` on the model"
    return QueryFailed("rule-failed", f"a row of `{output.node}` breaks a test: {first[0]}", hint=hint)
