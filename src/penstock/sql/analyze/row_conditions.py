"""Check conditions over single rows outside of queries, such as those of tests, and translate them to Spark SQL."""

from dataclasses import replace
from typing import Final

from penstock.sql.analyze.output_schema import analyze_outputs
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Problem, Query, parse
from penstock.sql.rewrite.render import is_plain_filter, spark_condition
from penstock.sql.types.columns import Columns

_TABLE: Final = "rows_"
_ROWS: Final = f"SELECT * FROM {_TABLE} WHERE "


def condition_problems(text: str, columns: Columns | None) -> list[Problem]:
    """Return the problems of a condition. Offsets count from the start of the condition."""
    parsed = parse(_ROWS + text, PROJECT)
    problems = [parsed] if isinstance(parsed, Problem) else []
    if isinstance(parsed, Query):
        if not is_plain_filter(parsed):
            return [Problem("sql-statement", "a condition applies to single rows and takes no other clauses")]
        problems = list(analyze_outputs(parsed, {_TABLE: columns}).problems)
    return [replace(problem, offset=max(0, problem.offset - len(_ROWS))) for problem in problems]


def row_condition(text: str) -> str | None:
    """Translate a condition to Spark SQL; None if the text is not a condition."""
    parsed = parse(_ROWS + text, PROJECT)
    return spark_condition(parsed) if isinstance(parsed, Query) and is_plain_filter(parsed) else None
