"""Queries whose rows carry a column of the rows that they read, so that a row is traced to its record."""

from typing import Final

from penstock.manifest.model import QuerySpec, Step
from penstock.sql.pushdown.carry_column import append_column

PLACE: Final = "_penstock_row"
"""The column with the number of a row among those of its batch."""


def carry_query_column(query: QuerySpec, column: str) -> QuerySpec | None:
    """The query with a column of its only stream behind those of every step.

    None where a row of the one is not surely made of one row of the other.
    """
    carried = [append_column(step.sql, column) if isinstance(step, Step) else None for step in query.steps]
    if None in carried or sum(not entry.static for entry in query.inputs) > 1:
        return None
    steps = (step.model_copy(update={"sql": sql}) for step, sql in zip(query.steps, carried, strict=True))
    return query.model_copy(update={"steps": tuple(steps)})
