"""The configuration of the keyed operators: plain values that SQL is split into and that the manifest stores.

Input rows carry system columns besides the named ones: `NOW` always; `SIGN` where an operator takes signed rows; `OP`
and `ORDER` where it takes changes. Empty `columns` mean all other columns of the rows, which are known when the query
starts.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate function over a column. Nulls are ignored; `count` without an argument counts rows.

    `first`, `last` and `list` follow `ORDER`. `list` returns an array. `distinct` uses each value once.
    """

    name: str
    function: Literal["count", "sum", "min", "max", "first", "last", "list"]
    argument: str | None = None
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row per key with the calls over all its rows, as changes: keys, calls, `OP`, and `BEFORE` if requested.

    Without calls it is DISTINCT. The state of a key for which no row arrives within `ttl_ms` is dropped, without a
    delete in the output. `closes` is the key column that holds the end of a window: its row is emitted when the
    watermark has reached the end. Rows that arrive for it within `lateness_ms` after that update it. Rows that arrive
    later are late.
    """

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    signed: bool = False
    with_before: bool = False
    ttl_ms: int | None = None
    closes: str | None = None
    lateness_ms: int = 0
    kind: Literal["aggregate"] = "aggregate"


@dataclass(frozen=True, slots=True)
class Sort:
    """A column to sort by. Nulls are the smallest values unless `nulls_last` is set."""

    column: str
    descending: bool = False
    nulls_last: bool | None = None


@dataclass(frozen=True, slots=True)
class Ranking:
    """The first `limit` rows of each partition, as changes: `columns`, the rank if it has a name, and `OP`.

    Rows with equal sort keys are ranked by arrival; with `last_first` the latest arrival ranks first. With a rank or a
    limit of 1, changes are keyed by partition and rank: a row that replaces another one is an update. Otherwise a row
    that leaves is a delete, and a row that enters is an insert.
    """

    partition: tuple[str, ...]
    order: tuple[Sort, ...]
    limit: int
    columns: tuple[str, ...] = ()
    rank: str | None = None
    signed: bool = False
    ttl_ms: int | None = None
    last_first: bool = False
    kind: Literal["ranking"] = "ranking"


@dataclass(frozen=True, slots=True)
class LatestPerKey:
    """Changes by key as signed rows (`columns` and `SIGN`): the old row of a key is retracted, the new one added."""

    keys: tuple[str, ...]
    columns: tuple[str, ...] = ()
    ttl_ms: int | None = None
    kind: Literal["latest"] = "latest"


@dataclass(frozen=True, slots=True)
class OverCall:
    """A function over a row and those before it in its partition, or after it (`lead`).

    The frame is `rows` back, or `range_ms` back in time (with the rows of equal time), or all rows from the start if
    both are None. With `by_row` that last frame ends at the row itself, otherwise it includes the rows of equal time.
    `lag` and `lead` look `offset` rows away and return `default` (a column) where there is no row.
    """

    name: str
    function: Literal["count", "sum", "min", "max", "first", "last", "lag", "lead", "row_number"]
    argument: str | None = None
    rows: int | None = None
    range_ms: int | None = None
    offset: int = 1
    default: str | None = None
    by_row: bool = False


@dataclass(frozen=True, slots=True)
class OverWindow:
    """Every row once, with the calls: `columns` and calls. Rows are processed in the order of `time`.

    With event time (`time` is a column) a row is emitted when the watermark has reached it, and a row that is behind
    the watermark when it arrives is late. Without event time (`time` is None) rows are processed as they arrive.
    """

    partition: tuple[str, ...]
    time: str | None
    calls: tuple[OverCall, ...]
    columns: tuple[str, ...] = ()
    ttl_ms: int | None = None
    kind: Literal["over"] = "over"


@dataclass(frozen=True, slots=True)
class VersionJoin:
    """Each left row with the version of the right row that was valid at its time: left columns, then right columns.

    With times, a left row is emitted when the watermark has reached it. Its version is the last one whose time is not
    after the row's, no matter how late or out of order the versions arrived. Without times, it is the last version that
    has arrived. After a version that is a delete (`OP` is `d`) no version is valid. `left_out` and `right_out` name the
    output columns.
    """

    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    left_time: str | None
    right_time: str | None
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    right_out: tuple[str, ...] = ()
    keep_unmatched: bool = False
    ttl_ms: int | None = None
    kind: Literal["version_join"] = "version_join"


@dataclass(frozen=True, slots=True)
class ChangeJoin:
    """A join by key of signed rows of two sides, as signed rows: left columns, then right columns, then `SIGN`.

    `side` is the side whose unmatched rows are emitted, with nulls. They are retracted when a matching row arrives.
    """

    side: Literal["inner", "left", "right", "full"]
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    right_out: tuple[str, ...] = ()
    ttl_ms: int | None = None
    kind: Literal["change_join"] = "change_join"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on a pair of rows: a left column, a comparison operator such as `<`, and a right column."""

    left: str
    sign: Literal["<", "<=", ">", ">=", "="]
    right: str


@dataclass(frozen=True, slots=True)
class IntervalJoin:
    """A join of two sides by key and by comparisons, where each row is kept until a time of its own.

    `left_until` and `right_until` are the columns with that time: no row that arrives after it can match. Without such
    a column, rows of that side are kept for ever. `side` is the side whose unmatched rows are emitted, with nulls, when
    they are dropped. With `left_time` and `right_time`, rows that are behind the watermark when they arrive are late.
    """

    side: Literal["inner", "left", "right", "full"]
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    comparisons: tuple[Comparison, ...] = ()
    left_until: str | None = None
    right_until: str | None = None
    left_time: str | None = None
    right_time: str | None = None
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    right_out: tuple[str, ...] = ()
    ttl_ms: int | None = None
    kind: Literal["interval_join"] = "interval_join"

    @property
    def own(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns of each side that the join itself needs."""
        compared = [(c.left for c in self.comparisons), (c.right for c in self.comparisons)]
        marks = [(self.left_until, self.left_time), (self.right_until, self.right_time)]
        keys = (self.left_key, self.right_key)
        left, right = (
            tuple(dict.fromkeys([*keys[i], *compared[i], *(m for m in marks[i] if m is not None)])) for i in (0, 1)
        )
        return left, right


Operator: TypeAlias = Aggregate | Ranking | LatestPerKey | OverWindow | VersionJoin | ChangeJoin | IntervalJoin


def needs_watermark(operator: Operator) -> bool:
    """Whether rows wait for the watermark."""
    match operator:
        case Aggregate():
            return operator.closes is not None
        case OverWindow():
            return operator.time is not None
        case VersionJoin():
            return operator.left_time is not None
        case _:
            return isinstance(operator, IntervalJoin)


def describe_operator(operator: Operator) -> str:
    """Describe the operator in one line."""
    fields = {name: value for name, value in asdict(operator).items() if value not in ((), None, False, "")}
    kind = str(fields.pop("kind")).replace("_", " ")
    calls = fields.pop("calls", ())
    parts = [f"{name.replace('_', ' ')} {_describe_value(value)}" for name, value in fields.items()]
    return f"{kind} ({'; '.join([*parts, *map(_describe_call, calls)])})"


def _describe_call(call: dict[str, Any]) -> str:
    distinct = "distinct " if call.get("distinct") else ""
    shifts = call["function"] in ("lag", "lead")
    further = [str(v) for v in (call["offset"], call["default"]) if v is not None] if shifts else []
    frame = f" rows {call['rows']}" if call.get("rows") is not None else ""
    frame += f" range {call['range_ms']} ms" if call.get("range_ms") is not None else ""
    frame += " by row" if call.get("by_row") else ""
    arguments = ", ".join([distinct + (call["argument"] or "*"), *further])
    return f"{call['name']} = {call['function']}({arguments}){frame}"


def _describe_value(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value)
    return ", ".join(_describe_part(part) for part in value)


def _describe_part(part: object) -> str:
    match part:
        case {"sign": sign, "left": left, "right": right}:
            return f"{left} {sign} {right}"
        case {"column": column, "descending": descending}:
            return f"{column}{' desc' if descending else ''}"
        case _:
            return str(part)
