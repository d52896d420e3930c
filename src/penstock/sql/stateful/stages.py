"""The parts of planning: how rows flow, the stages, and the builder that collects them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from penstock.keyed.operators import Operator
from penstock.sql.analyze.window_columns import SelectWindow, WindowIndex
from penstock.sql.parse.query import Problem, offset_of

FlowKind: TypeAlias = Literal["rows", "changes", "signed"]


@dataclass(frozen=True, slots=True)
class Flow:
    """The flow of a table's or subquery's rows.

    `rows` are append-only. `changes` are inserts, updates and deletes by `key`, marked in `_gs_op`. `signed` rows are
    added and retracted, marked in `_sign`. `columns` is None if they are not known. `times` are the columns with event
    time and `clocks` those with processing time, in lower case. `watermarked` is whether Spark itself still tracks
    event time. `hidden` are columns of the key that are not visible to users. Rows are accepted for `lateness_ms` after
    a window's end; `keeps_late` is whether later ones must be kept, and `mixed` whether rows of several inputs are
    united. A `static` table is a lookup table and not a stream. If changes are `repeated`, a batch may have several of
    one key, with the columns of `ORDER` and `WAS`. `joined` is whether rows come out of a join that Spark runs; `stale`
    are times of rows that may have waited in it for any time.
    """

    kind: FlowKind = "rows"
    key: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    times: frozenset[str] = frozenset()
    clocks: frozenset[str] = frozenset()
    watermarked: bool = True
    hidden: frozenset[str] = frozenset()
    static: bool = False
    lateness_ms: int = 0
    keeps_late: bool = False
    mixed: bool = False
    repeated: bool = False
    joined: bool = False
    stale: frozenset[str] = frozenset()

    def has(self, name: str) -> bool | None:
        """Whether there is a column of this name; None if the columns are not known."""
        return None if self.columns is None else name.casefold() in map(str.casefold, self.columns)


@dataclass(frozen=True, slots=True)
class SqlStage:
    view: str
    tree: exp.Query


@dataclass(frozen=True, slots=True)
class LateRowsQuery:
    """The SELECT of rows that an operator may find late, with the time at which each was due. It reads one table."""

    tree: exp.Query
    table: str


@dataclass(frozen=True, slots=True)
class JoinLag:
    """How far the event times of joined rows may be behind when they are emitted.

    The lag can exceed `behind_ms` unless it is `bounded`: a join may lack a constant bound, or emit unmatched rows,
    which follow the pairs of the batch that moved event time.
    """

    joined: bool = False
    behind_ms: int = 0
    bounded: bool = True

    def __add__(self, other: "JoinLag") -> "JoinLag":
        behind_ms = self.behind_ms + other.behind_ms
        return JoinLag(self.joined or other.joined, behind_ms, self.bounded and other.bounded)


NO_LAG: Final = JoinLag()


@dataclass(frozen=True, slots=True)
class OperatorStage:
    """A stage that an operator runs. `late` is set if late rows must be kept."""

    view: str
    inputs: tuple[str, ...]
    operator: Operator
    late: LateRowsQuery | None = None


QueryStage: TypeAlias = SqlStage | OperatorStage


@dataclass(frozen=True, slots=True)
class QueryRelation:
    """A relation in FROM, by its alias; `packed` rows are structs with the name of the alias.

    `shown` maps columns of the key outside of such a struct to the equal columns in the struct.
    """

    alias: str
    node: exp.Expr
    flow: Flow
    packed: bool = False
    shown: Mapping[str, str] = field(default_factory=dict)


class UnsupportedStream(Exception):
    """A query that cannot be split into stages. The problem is shown to the user."""

    def __init__(self, name: str, node: exp.Expr | int, hint: str) -> None:
        super().__init__(name)
        offset = node if isinstance(node, int) else offset_of(node)
        self.problem = Problem("sql-unsupported", f"{name} cannot run as a stream here", offset, hint, subject=name)


def unowned_column(column: exp.Column) -> UnsupportedStream:
    """Return the error for a column whose relation cannot be determined."""
    name = f"the column `{column.name}` without its input"
    return UnsupportedStream(name, column, "write the input's name before it")


RANK: Final = "_rank"
"""The column with the number of a row in its partition."""
ORDERED: Final = "#ordered"
"""The suffix of an input's name that reads it with the order of its rows."""


@dataclass(slots=True)
class StageBuilder:
    """The builder that collects the stages of one query. Views are numbered within the query's view."""

    view: str
    tables: Mapping[str, Flow]
    inputs: Collection[str] = ()
    """The tables that are read from outside, whose rows have an order."""
    ttl_ms: int | None = None
    windows: WindowIndex = field(default_factory=WindowIndex)
    """The windows of the query. Spark closes most of them itself."""
    stages: list[QueryStage] = field(default_factory=list)
    ordered: set[str] = field(default_factory=set)
    unbounded: list[tuple[str, int, str]] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    by_time: bool = False
    """Whether Spark runs a join by event time."""
    lag: JoinLag = NO_LAG
    """How far rows may be behind after the joins."""
    local: dict[str, QueryRelation] = field(default_factory=dict)
    """CTEs that became views, by lower-case name."""

    def sql(self, tree: exp.Query) -> str:
        view = f"{self.view}${len(self.stages) + 1}"
        self.stages.append(SqlStage(view, tree))
        return view

    def operator(self, operator: Operator, *inputs: str, late: LateRowsQuery | None = None) -> str:
        view = f"{self.view}${len(self.stages) + 1}"
        self.stages.append(OperatorStage(view, inputs, operator, late))
        return view

    def has_window(self, select: exp.Select) -> bool:
        windowed = id(select) in self.windows.made or id(select) in self.windows.groups
        return select.args.get("group") is not None and windowed

    def grouped_window(self, select: exp.Select) -> SelectWindow:
        return self.windows.made.get(id(select)) or self.windows.groups[id(select)]

    def note_unbounded_state(self, name: str, offset: int, hint: str = "use a window") -> None:
        """Note state that grows with the keys, with an alternative to a TTL. With a TTL nothing is noted."""
        if self.ttl_ms is None and (name, offset, hint) not in self.unbounded:
            self.unbounded.append((name, offset, hint))
