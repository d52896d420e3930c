"""What kind of query a tree is: stateless, stateful, and which constructs made it so."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sqlglot import exp

from penstock.sql.functions import MODEL_CALLS, group_windows
from penstock.sql.query import Problem, Query, offset_of

_NEVER: Final = "a stream cannot know what will never come; filter in a consumer"
_AGGREGATES: Final = frozenset({"COLLECT", "JSON_ARRAYAGG", "LISTAGG"})


_TELLING: Final = (
    exp.Group,
    exp.Join,
    exp.Distinct,
    exp.Window,
    exp.Order,
    exp.Limit,
    exp.Fetch,
    exp.SetOperation,
    exp.In,
    exp.Exists,
    exp.MatchRecognize,
    exp.AggFunc,
    exp.Anonymous,
    exp.Table,
)


@dataclass(frozen=True, slots=True)
class Construct:
    """A part of a query that needs memory of earlier rows. `way_out` is empty when it runs as it is.

    `never` tells what no stream can do from what is sound but cannot be run here.
    """

    name: str
    offset: int
    way_out: str = ""
    word: str = ""
    never: bool = False


def stateful_constructs(query: Query) -> tuple[Construct, ...]:
    return tuple(sorted(map(partial(_placed, query), _constructs(query.tree)), key=lambda c: c.offset))


def _placed(query: Query, construct: Construct) -> Construct:
    """A construct stands at its word: the last one before the first name in it."""
    if not construct.way_out:
        return construct
    words = {construct.name.partition(" ")[0].upper(), construct.word.upper()}
    tokens = query.dialect.tokenize(query.text)
    found = [t.start for t in tokens if t.text.upper() in words or t.text.upper().partition(" ")[0] in words]
    before = [start for start in found if start <= construct.offset]
    return replace(construct, offset=before[-1] if before else found[0] if found else construct.offset)


@dataclass(frozen=True, slots=True)
class Window:
    """A call of TUMBLE, HOP or SESSION over a column."""

    column: str
    offset: int


def windows(query: Query) -> tuple[Window, ...]:
    """The group windows, in the order of the text."""
    calls = group_windows(query.tree.find_all(exp.Anonymous))
    found = [Window(_text(c.expressions[0]) if c.expressions else "", offset_of(c)) for c in calls]
    return tuple(sorted(found, key=lambda window: window.offset))


def _text(time: exp.Expr) -> str:
    return time.name if isinstance(time, exp.Column) else time.sql(comments=False)


def unsupported(constructs: Iterable[Construct], *, never: bool) -> tuple[Problem, ...]:
    """The constructs that cannot run as a stream, never or just not here, each with what to do instead."""
    return tuple(
        Problem("sql-unsupported", f"{c.name} cannot run as a stream here", c.offset, c.way_out, subject=c.name)
        for c in constructs
        if c.way_out and c.never == never
    )


def _constructs(tree: exp.Expr) -> Iterator[Construct]:
    for node in tree.find_all(*_TELLING):
        match node:
            case exp.Group():
                yield _grouping(node)
            case exp.Table() if node.args.get("version"):
                yield Construct("FOR SYSTEM_TIME AS OF", offset_of(node), "use an inner join")
            case exp.Join() if not isinstance(node.this, exp.Unnest | exp.Lateral):
                outer = node.side in {"LEFT", "RIGHT", "FULL"} or node.kind in {"SEMI", "ANTI"}
                name = f"{node.side or node.kind} JOIN".strip() if outer else "JOIN"
                yield Construct(name, offset_of(node), "use an inner join" if outer else "")
            case exp.Distinct() if isinstance(node.parent, exp.Select):
                yield Construct("SELECT DISTINCT", offset_of(node.parent), "remove duplicates in the reader")
            case exp.Window():
                yield Construct("OVER", offset_of(node), "aggregate in a window: TUMBLE, HOP or SESSION")
            case exp.Order() if isinstance(node.parent, exp.Query):
                way_out = "a stream has no end to sort; leave it out"
                yield Construct("ORDER BY", offset_of(node), way_out, never=True)
            case exp.Limit() | exp.Fetch():
                yield Construct("LIMIT", offset_of(node), "a stream has no end to cut; leave it out", never=True)
            case exp.Union() if node.args.get("distinct"):
                yield Construct("UNION", offset_of(node), "write UNION ALL")
            case exp.Intersect():
                yield Construct("INTERSECT", offset_of(node), "use an inner join")
            case exp.Except():
                yield Construct("EXCEPT", offset_of(node), _NEVER, never=True)
            case exp.In() if node.args.get("query"):
                never = isinstance(node.parent, exp.Not)
                yield Construct("IN (SELECT …)", offset_of(node), _NEVER if never else "use an inner join", never=never)
            case exp.Exists():
                never = isinstance(node.parent, exp.Not)
                way_out = _NEVER if never else "use an inner join"
                yield Construct("EXISTS (SELECT …)", offset_of(node), way_out, never=never)
            case exp.MatchRecognize():
                yield Construct("MATCH_RECOGNIZE", offset_of(node), "match in a window: SESSION with FILTER aggregates")
            case exp.Anonymous() if node.name.upper() in MODEL_CALLS:
                yield Construct(node.name.upper(), offset_of(node), "score the rows in a consumer of the topic")
            case exp.AggFunc() | exp.Anonymous() if _ungrouped_aggregate(node):
                word = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
                way_out = "group by a window over the event time"
                yield Construct("an aggregate without GROUP BY", offset_of(node), way_out, word)
            case _:
                pass


def _grouping(group: exp.Group) -> Construct:
    calls = [call.name.upper() for call in group_windows(group.expressions)]
    if not calls:
        way_out = "group by a window: TUMBLE, HOP or SESSION over the event time"
        return Construct("GROUP BY without a window", offset_of(group), way_out)
    if calls == ["SESSION"] and len(group.expressions) == 1:
        return Construct("SESSION without a key", offset_of(group), "group by a column as well", never=True)
    if "CUMULATE" in calls:
        return Construct("CUMULATE", offset_of(group), "use HOP, or TUMBLE of the smaller size")
    return Construct("GROUP BY", offset_of(group))


def _ungrouped_aggregate(node: exp.Expr) -> bool:
    aggregates = isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES)
    select = node.parent_select
    in_over = isinstance(node.parent, exp.Window)
    return aggregates and not in_over and select is not None and select.args.get("group") is None
