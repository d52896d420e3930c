"""Aggregates in PostgreSQL, such as sums and counts, that triggers of the database keep up to date."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from penstock.clients.postgres.sink.aggregate_tables import COUNTER, SENTINEL, Aggregation
from penstock.clients.postgres.sink.aggregate_triggers import Figure, Group
from penstock.clients.postgres.sink.writer import TableWriter
from penstock.clients.postgres.tables import QualifiedTable
from penstock.config import FrozenModel
from penstock.connectors.contract import SinkCapabilities
from penstock.connectors.table_sink import TableSink
from penstock.errors import PlanRefused

_KEY_MESSAGE: Final = "primary key is required for Postgres aggregation sink"
_TYPE: Final = re.compile(r'[A-Za-z_][\w ."]*(\(\s*\d+\s*(,\s*-?\d+\s*)?\)[\w ]*)?(\[\])*')


class GroupColumn(FrozenModel):
    """A column to group rows by."""

    from_: str | None = Field(None, alias="from", min_length=1)
    """The column of the rows. Default: the one of the same name."""
    type: str | None = None
    """The PostgreSQL type. Default: the type in the rows."""

    @field_validator("type")
    @classmethod
    def _is_type(cls, text: str | None) -> str | None:
        if text is not None and not _TYPE.fullmatch(text.strip()):
            raise ValueError("a type looks like `text` or `numeric(30,5)`")
        return text


class AggregateColumn(GroupColumn):
    """A column that is computed from the rows of a group."""

    fn: Literal["sum", "count", "avg", "min", "max"]
    """The aggregate function. An average is stored as a sum and a count."""

    @property
    def reads(self) -> bool:
        """Whether the function reads a column, rather than counting rows."""
        return self.fn != "count" or self.from_ is not None

    def figures(self, name: str) -> Iterator[Figure]:
        source = self.from_ or name
        if self.fn == "count":
            yield Figure(name, "count", self.from_, self.type or "bigint")
        elif self.fn == "avg":
            yield Figure(f"{name}_sum", "sum", source, self.type or "numeric")
            yield Figure(f"{name}_count", "count", source, "bigint")
        else:
            yield Figure(name, self.fn, source, self.type or ("numeric" if self.fn == "sum" else None))


class PostgresAggregateSink(TableSink):
    """Writes rows to one PostgreSQL table, and maintains their aggregates in another one.

    The first table has the last row of every key. Triggers apply every change of it to the second one, so inserts,
    updates and deletes are all supported. Both tables are created if they do not exist.
    """

    type: Literal["postgres_aggregate"] = "postgres_aggregate"
    delivery = "exactly once: rows, aggregates and the entry of their batch in `penstock_ledger` are one transaction"
    located_by = ("database", "schema", "landing_table", "agg_table")
    schema_: str = Field("public", alias="schema", min_length=1)
    """The schema of both tables. It is created if it does not exist."""
    landing_table: str = Field(min_length=1)
    """The table of the rows: the last row of every key."""
    agg_table: str = Field(min_length=1)
    """The table of the aggregates: one row per group."""
    group_by: dict[str, GroupColumn] = {}
    """Columns to group by. Without any there is a single row, whose column `key` is `value`."""
    aggregate: dict[str, AggregateColumn] = {}
    """Columns that are computed from the rows of a group; at least one."""
    schema_change: Literal["fail", "evolve", "ignore"] = "fail"
    """What to do with a column that the table of the rows lacks: `fail`, add it (`evolve`), or `ignore` it."""

    @field_validator("group_by", mode="before")
    @classmethod
    def _may_say_nothing(cls, written: Any) -> Any:
        if not isinstance(written, Mapping):
            return written
        return {name: {} if said is None else said for name, said in written.items()}

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.aggregate:
            raise ValueError("at least one aggregate column is required")
        if self.landing_table == self.agg_table:
            raise ValueError("`landing_table` and `agg_table` are one table")
        names = [*(self.group_by or (SENTINEL,)), *(figure.column for figure in self._figures), COUNTER]
        if twice := [name for name, times in Counter(names).items() if times > 1]:
            raise ValueError(f"the table of aggregates would have two columns `{twice[0]}`")
        return self

    @property
    def capabilities(self) -> SinkCapabilities:
        groups = {f"group_by.{name}": said.from_ or name for name, said in self.group_by.items()}
        made = {f"aggregate.{name}": said.from_ or name for name, said in self.aggregate.items() if said.reads}
        return replace(super().capabilities, key_message=_KEY_MESSAGE, named_columns={**groups, **made})

    @property
    def _figures(self) -> tuple[Figure, ...]:
        return tuple(figure for name, said in self.aggregate.items() for figure in said.figures(name))

    @property
    def _writer(self) -> TableWriter:
        if not self.primary_key:
            raise PlanRefused("missing-field", _KEY_MESSAGE, hint="add `primary_key: …`")
        groups = tuple(Group(name, said.from_ or name, said.type) for name, said in self.group_by.items())
        aggregation = Aggregation(QualifiedTable(self.schema_, self.agg_table), groups, self._figures)
        rows, change = QualifiedTable(self.schema_, self.landing_table), self.schema_change
        return TableWriter(self._server, rows, self.primary_key, schema_change=change, aggregation=aggregation)
