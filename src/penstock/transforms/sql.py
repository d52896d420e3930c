"""The SQL transform of a pipeline."""

from typing import Literal

from pydantic import Field

from penstock.config import Frozen, Names


class SqlTransform(Frozen):
    """One SELECT over sources and other transforms, by name: projections, filters, UNION ALL, UNNEST."""

    type: Literal["sql"] = "sql"
    sql: str = Field(min_length=1)
    """The SELECT. `_gs_op` is carried along when the projection leaves it out."""
    primary_key: Names
    """The columns that identify a row, separated by commas."""
