"""What carving works with: how rows flow, the stages that come out, and the workbench that collects them."""

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
    """How the rows of a table or subquery come.

    `rows` only ever come. `changes` are inserts, updates and deletes by `key`, told apart by `_gs_op`. `signed` rows
    come and go, told apart by `_sign`. `columns` are None when they are not known. `times` are the columns with event
    time and `clocks` those with the time of processing, by folded names. `watermarked` is whether Spark itself still
    knows about event time. `hidden` are columns of the key that are no columns for people. For `lateness_ms` after a
    window's end its rows still count; `keeps_late` is whether those that come later are to be kept, and `mixed` whether
    rows of several inputs are put together. A `static` table is looked up, and is no stream. If changes are `repeated`,
    a batch may hold several of one key, with the columns of `ORDER` and `WAS` beside them. `joined` is whether rows
    come out of a join that Spark does; `stale` are times of rows that may have waited in it for any time.
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
        """Whether there is a column of this name, if that is known."""
        return None if self.columns is None else name.casefold() in map(str.casefold, self.columns)


@dataclass(frozen=True, slots=True)
class SqlStage:
    view: str
    tree: exp.Query


@dataclass(frozen=True, slots=True)
class LateRowsQuery:
    """SELECT the rows that an operator may find late, with the time by which each was due. It reads one table."""

    tree: exp.Query
    table: str


@dataclass(frozen=True, slots=True)
class JoinLag:
    """How far the event times of rows may be behind when joins put them out.

    Beyond `behind_ms` nothing is known unless the lag is `bounded`: a join may lack a constant bound, or put out rows
    without a partner, which come after the pairs of the batch that moved event time.
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
    """`late` is there if late rows are to be kept."""

    view: str
    inputs: tuple[str, ...]
    operator: Operator
    late: LateRowsQuery | None = None


QueryStage: TypeAlias = SqlStage | OperatorStage


@dataclass(frozen=True, slots=True)
class QueryRelation:
    """Something in FROM, by its alias; `packed` rows are structs that are called by the alias.

    `shown` has the columns in such a struct that are the same as columns of the key beside it, by the latter.
    """

    alias: str
    node: exp.Expr
    flow: Flow
    packed: bool = False
    shown: Mapping[str, str] = field(default_factory=dict)


class UnsupportedStream(Exception):
    """A query that cannot be carved; the reason is for people."""

    def __init__(self, name: str, node: exp.Expr | int, way_out: str) -> None:
        super().__init__(name)
        offset = node if isinstance(node, int) else offset_of(node)
        self.problem = Problem("sql-unsupported", f"{name} cannot run as a stream here", offset, way_out, subject=name)


RANK: Final = "_rank"
"""The number of a row in its partition."""
ORDERED: Final = "#ordered"
"""What is added to the name of an input to read it with the order of its rows."""


@dataclass(slots=True)
class StageBuilder:
    """Where the stages of one query are collected. Views are numbered within the query's own."""

    view: str
    tables: Mapping[str, Flow]
    inputs: Collection[str] = ()
    """The tables that are read from outside, so that their rows have an order."""
    ttl_ms: int | None = None
    followed: WindowIndex = field(default_factory=WindowIndex)
    """The windows of the query; Spark closes most of them itself."""
    stages: list[QueryStage] = field(default_factory=list)
    ordered: set[str] = field(default_factory=set)
    unbounded: list[tuple[str, int, str]] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    by_time: bool = False
    """Whether Spark does a join by event time."""
    lag: JoinLag = NO_LAG
    """How far rows may be behind when they have come out of the joins."""
    local: dict[str, QueryRelation] = field(default_factory=dict)
    """CTEs that became views, by folded name."""

    def sql(self, tree: exp.Query) -> str:
        view = f"{self.view}${len(self.stages) + 1}"
        self.stages.append(SqlStage(view, tree))
        return view

    def operator(self, operator: Operator, *inputs: str, late: LateRowsQuery | None = None) -> str:
        view = f"{self.view}${len(self.stages) + 1}"
        self.stages.append(OperatorStage(view, inputs, operator, late))
        return view

    def has_window(self, select: exp.Select) -> bool:
        windowed = id(select) in self.followed.made or id(select) in self.followed.groups
        return select.args.get("group") is not None and windowed

    def grouped_window(self, select: exp.Select) -> SelectWindow:
        """The window that a SELECT groups by."""
        return self.followed.made.get(id(select)) or self.followed.groups[id(select)]

    def note_unbounded_state(self, name: str, offset: int, way_out: str = "use a window") -> None:
        """Note state that grows with the keys, unless it expires, and what could be done beside that."""
        if self.ttl_ms is None and (name, offset, way_out) not in self.unbounded:
            self.unbounded.append((name, offset, way_out))
