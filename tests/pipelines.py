"""The fixtures of `tests/spark/pipeline_functions.yml`: expressions of pipelines, and their results."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from penstock.sql.analyze.operand_types import kinds_edit
from penstock.sql.analyze.output_schema import OutputAnalysis, analyze_outputs
from penstock.sql.lint.unknown_to_spark import find_spark_unknowns
from penstock.sql.parse.dialects import PIPELINE
from penstock.sql.parse.query import Problem, Query, parse
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.columns import Column
from tests.flink import shown as plain

FILE = Path(__file__).parent / "spark" / "pipeline_functions.yml"
COLUMNS = (
    Column("i", "INT"), Column("b", "BIGINT"), Column("d", "DOUBLE"), Column("s", "STRING"), Column("x", "STRING"),
    Column("nothing", "STRING"), Column("day", "DATE"), Column("at", "TIMESTAMP"), Column("a", "ARRAY<INT>"),
    Column("m", "MAP<STRING, INT>"), Column("j", "STRING"), Column("raw", "BINARY"), Column("tags", "ARRAY<STRING>"),
    Column("broken", "STRING"), Column("counts", "MAP<BIGINT, STRING>"),
    Column("l", "ARRAY<STRUCT<kind: STRING, n: BIGINT>>"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fixture:
    sql: str
    gives: Any = field(hash=False)
    type: str | None = None


@cache
def groups() -> dict[str, list[Fixture]]:
    read = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {name: [Fixture(**fields) for fields in group] for name, group in read.items()}


@cache
def studied(expression: str) -> tuple[Query, OutputAnalysis] | Problem:
    """An expression over a row of these columns."""
    parsed = parse(f"SELECT {expression} AS result FROM t", PIPELINE)
    if isinstance(parsed, Problem):
        return parsed
    analysis = analyze_outputs(parsed, {"t": COLUMNS})
    return parsed.with_edit(kinds_edit(analysis.operands)), analysis


def problems(expression: str) -> list[Problem]:
    """What `validate` says of an expression."""
    found = studied(expression)
    if isinstance(found, Problem):
        return [found]
    return list(found[1].problems or find_spark_unknowns(found[0]))


@cache
def translated(expression: str) -> str:
    """An expression as Spark SQL, with the types of columns known."""
    found = studied(expression)
    assert not isinstance(found, Problem), found
    return to_spark(found[0]).removeprefix("SELECT ").removesuffix(" AS `result` FROM `t`")


def shown(value: Any) -> Any:
    """A value as it is compared: bytes as digits."""
    match value:
        case bytes() | bytearray():
            return value.hex()
        case list() | tuple():
            return [shown(item) for item in value]
        case _:
            return plain(value)
