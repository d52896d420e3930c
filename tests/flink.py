"""The fixtures of `tests/spark/flink_functions.yml`: expressions of Flink SQL, their results, and their Spark SQL."""

import datetime
import decimal
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from sqlglot import exp, parse_one

from penstock.sql.analyze.analysis import bind_query
from penstock.sql.analyze.output_schema import OutputAnalysis, analyze_outputs
from penstock.sql.parse.dialects import PROJECT, SPARK
from penstock.sql.parse.query import Query, parse
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.columns import Column

FILE = Path(__file__).parent / "spark" / "flink_functions.yml"
ONE_ROW = (
    Column("i", "INT"), Column("b", "BIGINT"), Column("d", "DOUBLE"), Column("s", "STRING"), Column("sep", "STRING"),
    Column("nothing", "STRING"), Column("day", "DATE"), Column("at", "TIMESTAMP"), Column("a", "ARRAY<INT>"),
    Column("m", "MAP<STRING, INT>"), Column("j", "STRING"),
)  # fmt: skip
ROWS = (Column("x", "INT"), Column("y", "DOUBLE"), Column("z", "STRING"))


@dataclass(frozen=True, slots=True)
class Fixture:
    flink: str
    gives: Any = field(hash=False)
    spark: str | None = None
    type: str | None = None
    rows: bool = False

    @property
    def inputs(self) -> dict[str, tuple[Column, ...]]:
        return {"source.t": ROWS if self.rows else ONE_ROW}

    @property
    def text(self) -> str:
        return f"SELECT {self.flink} AS x FROM `source.t` AS t"


def groups() -> dict[str, list[Fixture]]:
    read = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {name: [Fixture(**fields) for fields in group] for name, group in read.items()}


def differences() -> list[tuple[Fixture, Any]]:
    """What Spark gives, and with it what Flink would."""
    read = yaml.safe_load((FILE.parent / "flink_differences.yml").read_text(encoding="utf-8"))
    return [(Fixture(**{k: v for k, v in d.items() if k != "in_flink"}), d["in_flink"]) for d in read]


@cache
def fixtures() -> list[Fixture]:
    return [fixture for group in groups().values() for fixture in group]


@cache
def analysed(fixture: Fixture) -> OutputAnalysis:
    parsed = parse(fixture.text, PROJECT)
    assert isinstance(parsed, Query), parsed
    return analyze_outputs(parsed, fixture.inputs)


@cache
def translated(fixture: Fixture) -> str:
    """The expression as Spark SQL, with the types of columns known."""
    sql = to_spark(bind_query(fixture.text, list(fixture.inputs), analysed(fixture).operands))
    (output,) = parse_one(sql, read=SPARK).selects
    assert isinstance(output, exp.Alias)
    return sql.removeprefix("SELECT ").partition(" AS `x` FROM `source.t`")[0]


def shown(value: Any) -> Any:
    """A value as it is compared: times, dates and decimals as text."""
    match value:
        case datetime.date() | decimal.Decimal():
            return str(value)
        case list() | tuple():
            return [shown(item) for item in value]
        case dict():
            return {key: shown(item) for key, item in value.items()}
        case _:
            return value
