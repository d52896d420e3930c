"""The SQL of triggers that maintain aggregates: how a change of a table's rows changes another table.

A statement adds rows (sign 1) and removes rows (sign -1); an update does both. Sums and counts change by the
difference. Minimum and maximum are computed from the rows again only if the stored value may have been removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.clients.postgres.tables import QualifiedTable, quote_identifier, quote_names


@dataclass(frozen=True, slots=True)
class Group:
    """A column to group by, and its source column; without one its value is always `value`."""

    column: str
    source: str | None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A column with an aggregate. Without a source, rows are counted."""

    column: str
    kind: Literal["sum", "count", "min", "max"]
    source: str | None = None
    type: str | None = None

    @property
    def is_additive(self) -> bool:
        return self.kind in ("sum", "count")

    def changes_sql(self, value: str) -> str:
        """Return the SQL for its change, from rows with a sign."""
        if self.kind == "sum":
            return f"coalesce(sum(sign * {value}), 0)"
        if self.kind == "count":
            return f"coalesce(sum(sign){f' FILTER (WHERE {value} IS NOT NULL)' if self.source else ''}, 0)"
        return f"{self.kind}({value}) FILTER (WHERE sign > 0)"

    def rows_sql(self, value: str) -> str:
        """Return the SQL for its value, from all rows."""
        if self.kind == "sum":
            return f"coalesce(sum({value}), 0)"
        if self.kind == "count":
            return f"count({value if self.source else '*'})"
        return f"{self.kind}({value})"

    @property
    def merge_sql(self) -> str:
        name = quote_identifier(self.column)
        if self.is_additive:
            return f"kept.{name} + EXCLUDED.{name}"
        return f"{'least' if self.kind == 'min' else 'greatest'}(kept.{name}, EXCLUDED.{name})"


@dataclass(frozen=True, slots=True)
class Trigger:
    """The function that maintains a table of aggregates of a table of rows; both with the types of their columns."""

    rows: QualifiedTable
    row_types: Mapping[str, str]
    table: QualifiedTable
    types: Mapping[str, str]
    groups: Sequence[Group]
    figures: Sequence[Figure]
    counter: str | None
    """The column with the number of rows of a group: a group without rows is deleted. None if it is kept."""

    @property
    def body(self) -> str:
        """The body of the function, for any statement that changes rows."""
        added = self._select_sql("new_table", ", 1 AS sign")
        removed = self._select_sql("old_table", ", -1 AS sign")
        afterwards = "\n".join([*self._delete_empty_sql, *self._refresh_stale_sql])
        return (
            "\n#variable_conflict use_column\n"
            "BEGIN\n"
            f"IF TG_OP = 'TRUNCATE' THEN\n{self.rebuild_sql}\nRETURN NULL;\nEND IF;\n"
            f"IF TG_OP = 'INSERT' THEN\n{self._upsert_sql(added)}\n"
            f"ELSIF TG_OP = 'UPDATE' THEN\n{self._upsert_sql(f'{added} UNION ALL {removed}')}\n"
            f"ELSE\n{self._upsert_sql(removed)}\nEND IF;\n"
            f"IF TG_OP <> 'INSERT' THEN\n{afterwards or 'NULL;'}\nEND IF;\n"
            "RETURN NULL;\n"
            "END;\n"
        )

    @property
    def rebuild_sql(self) -> str:
        """Statements that compute the aggregates from all rows."""
        found = [figure.rows_sql(f"v{n}") for n, figure in enumerate(self.figures)]
        grouped = f" GROUP BY {', '.join(self._keys())}" if self._is_grouped else ""
        keys = self._keys() if self._is_grouped else ["'value'"]
        return (
            f"DELETE FROM {self.table};\n"
            f"INSERT INTO {self.table} ({self._columns}) SELECT {', '.join([*keys, *found])}"
            f" FROM ({self._select_sql(str(self.rows))}) AS r{grouped};"
        )

    def _upsert_sql(self, changes: str) -> str:
        found = [figure.changes_sql(f"v{n}") for n, figure in enumerate(self.figures)]
        keys = ", ".join(self._keys())
        merged = ", ".join(f"{quote_identifier(figure.column)} = {figure.merge_sql}" for figure in self.figures)
        return (
            f"INSERT INTO {self.table} AS kept ({self._columns})"
            f" SELECT {', '.join([keys, *found])} FROM ({changes}) AS r GROUP BY {keys} ORDER BY {keys}"
            f" ON CONFLICT ({quote_names(group.column for group in self.groups)}) DO UPDATE SET {merged};"
        )

    @property
    def _delete_empty_sql(self) -> list[str]:
        if self.counter is None:
            return []
        counter = quote_identifier(self.counter)
        empty = f"WITH {self._gone_sql} SELECT kept.place {self._lookup_sql} WHERE kept.{counter} <= 0"
        return [f"DELETE FROM {self.table} WHERE ctid = ANY (ARRAY({empty}));"]

    @property
    def _refresh_stale_sql(self) -> list[str]:
        """Statements that compute minimum and maximum again, where the stored value may have been removed.

        Sums are not recomputed so: rows that the same statement has inserted may still have to be added to them.
        """
        ends = {n: figure for n, figure in enumerate(self.figures) if not figure.is_additive}
        if not ends:
            return []
        signs = {n: "<=" if figure.kind == "min" else ">=" for n, figure in ends.items()}
        stored = {n: f"kept.{quote_identifier(figure.column)}" for n, figure in ends.items()}
        doubts = " OR ".join(f"gone.v{n} {signs[n]} {column}" for n, column in stored.items())
        found = ", ".join(f"{figure.rows_sql(f'r.v{n}')} AS c{n}" for n, figure in ends.items())
        rows, keys = f"({self._select_sql(str(self.rows))}) AS r", self._keys("stale.")
        one_by_one = (
            f"SELECT stale.place, r.* FROM stale CROSS JOIN LATERAL (SELECT {found} FROM {rows}"
            f" WHERE {_pairs(self._keys('r.'), 'IS NOT DISTINCT FROM', keys)}) AS r"
        )
        joined = (
            f"SELECT stale.place, {found} FROM {rows} JOIN stale ON {_pairs(self._keys('r.'), '=', keys)}"
            f" GROUP BY stale.place UNION ALL {one_by_one} WHERE {_any_null(keys)}"
        )
        changes = ", ".join(f"{quote_identifier(figure.column)} = fresh.c{n}" for n, figure in ends.items())
        return [
            f"WITH {self._gone_sql}, stale AS MATERIALIZED (SELECT kept.place, {', '.join(self._keys('gone.'))}"
            f" {self._lookup_sql} WHERE {doubts}), fresh AS ({joined if self._is_grouped else one_by_one})"
            f" UPDATE {self.table} AS kept SET {changes} FROM fresh WHERE kept.ctid = fresh.place;"
        ]

    @property
    def _gone_sql(self) -> str:
        """The groups that rows were removed from, with the minimum or maximum of the removed rows."""
        keys = ", ".join(self._keys())
        ends = [f"{figure.kind}(v{n}) AS v{n}" for n, figure in enumerate(self.figures) if not figure.is_additive]
        rows = self._select_sql("old_table")
        return f"gone AS (SELECT {', '.join([keys, *ends])} FROM ({rows}) AS r GROUP BY {keys})"

    @property
    def _lookup_sql(self) -> str:
        """Looks up the row of each of these groups by the index; groups with nulls are looked up separately."""
        columns = [f"kept.{quote_identifier(group.column)}" for group in self.groups]
        keys = self._keys("gone.")
        line = f"SELECT kept.ctid AS place, kept.* FROM {self.table} AS kept WHERE"
        nulls = f" UNION ALL {line} ({_any_null(keys)}) AND {_pairs(columns, 'IS NOT DISTINCT FROM', keys)}"
        return (
            f"FROM gone CROSS JOIN LATERAL ({line} {_pairs(columns, '=', keys)}"
            f"{nulls if self._is_grouped else ''}) AS kept"
        )

    def _select_sql(self, table: str, more: str = "") -> str:
        """Select groups and values of rows, with their types in the table of aggregates."""
        keys = [f"{self._value(group.column, group.source)} AS g{n}" for n, group in enumerate(self.groups)]
        values = [f"{self._figure_value(figure)} AS v{n}" for n, figure in enumerate(self.figures) if figure.source]
        return f"SELECT {', '.join([*keys, *values])}{more} FROM {table} AS r"

    def _figure_value(self, figure: Figure) -> str:
        if figure.kind == "count":
            return f"r.{quote_identifier(figure.source or '')}"
        return self._value(figure.column, figure.source)

    def _value(self, column: str, source: str | None) -> str:
        if source is None:
            return "'value'::text"
        there, wanted, value = self.row_types[source], self.types[column], f"r.{quote_identifier(source)}"
        if there == wanted:
            return value
        # A cast to varchar(n) would truncate without an error; without it the table refuses what is too long.
        return f"CAST({value} AS {'text' if wanted.startswith('character varying') else wanted})"

    @property
    def _is_grouped(self) -> bool:
        return any(group.source is not None for group in self.groups)

    @property
    def _columns(self) -> str:
        return quote_names([*(group.column for group in self.groups), *(figure.column for figure in self.figures)])

    def _keys(self, of: str = "") -> list[str]:
        return [f"{of}g{n}" for n in range(len(self.groups))]


def _pairs(left: Sequence[str], sign: str, right: Sequence[str]) -> str:
    return " AND ".join(f"{a} {sign} {b}" for a, b in zip(left, right, strict=True))


def _any_null(names: Sequence[str]) -> str:
    return " OR ".join(f"{name} IS NULL" for name in names)
