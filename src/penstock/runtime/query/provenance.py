"""Carries a column of the input rows through a query, so that an output row can be traced to its record."""

from typing import Final

from penstock.manifest.model import QuerySpec, Step
from penstock.sql.pushdown.append_column import append_column

PLACE: Final = "_penstock_row"
"""The column with the number of a row within its batch."""


def carry_query_column(query: QuerySpec, column: str) -> QuerySpec | None:
    """Return the query with a column of its only stream appended in every step.

    None if an output row is not certainly made from exactly one input row.
    """
    carried = [append_column(step.sql, column) if isinstance(step, Step) else None for step in query.steps]
    if None in carried or len(query.streams) > 1:
        return None
    steps = (step.model_copy(update={"sql": sql}) for step, sql in zip(query.steps, carried, strict=True))
    return query.model_copy(update={"steps": tuple(steps)})
