"""The SQL transform of a pipeline."""

from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import Field

from penstock.config import Key
from penstock.connectors.node import PipelineNode


class SqlTransform(PipelineNode):
    """One SELECT over sources and other transforms, by name: projections, filters, UNION ALL, UNNEST."""

    inert: ClassVar = dict.fromkeys(
        ("batch_size", "batch_flush_interval", "parallelism"), "it runs in the tasks of its query"
    )
    type: Literal["sql"] = "sql"
    sql: str = Field(min_length=1)
    """The SELECT. `_gs_op` is added if the projection leaves it out."""
    primary_key: Key
    """The columns that identify a row, separated by commas."""


TRANSFORMS: Final[Mapping[str, type[PipelineNode]]] = {"sql": SqlTransform}
"""The transforms by their `type`."""
