"""Find the constructs of a query that keep state, or that cannot run as a stream."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.window_columns import WindowIndex, index_windows
from penstock.sql.catalog.function_names import is_group_aggregate, needs_over, written_name
from penstock.sql.parse.query import Problem, Query, full_name, offset_of
from penstock.sql.rewrite.distinct import can_expand_distinct, distinct_aggregates
from penstock.sql.types.inference_overrides import MODEL_CALLS

_NEVER: Final = "a stream cannot know which rows will never arrive; filter in a consumer"
_CLASSES: Final = (
    exp.Group, exp.Pivot, exp.Join, exp.Distinct, exp.Window, exp.Order, exp.Limit, exp.Fetch, exp.Offset,
    exp.SetOperation, exp.In, exp.Exists, exp.MatchRecognize, exp.AggFunc, exp.Anonymous, exp.Table, exp.Having,
    exp.Query,
)  # fmt: skip
"""The classes of all nodes that can be a construct."""
_HOLDS_QUERIES: Final = (exp.From, exp.Join, exp.Lateral, exp.Query, exp.CTE, exp.Exists)


@dataclass(frozen=True, slots=True)
class Construct:
    """A part of a query that needs state. `hint` is empty if it runs unchanged.

    `never` separates constructs that no stream can run from constructs that are sound but not supported here.
    """

    name: str
    offset: int
    hint: str = ""
    word: str = ""
    never: bool = False


def stateful_constructs(
    query: Query, windows: WindowIndex | None = None, lookups: Collection[str] = ()
) -> tuple[Construct, ...]:
    """Find the constructs of a query that keep state or cannot run.

    A construct that cannot run has the offset of its keyword; the others have the offset of the first name in them.
    `windows` is passed if the windows of the query are known already. `lookups` are the lookup tables, in lower case:
    a join with one keeps no state, because Spark reads it as a whole in every batch.
    """
    found = _constructs(query.tree, index_windows(query.tree) if windows is None else windows, frozenset(lookups))
    placed = (
        replace(c, offset=keyword_offset(query, c.name, c.offset, c.word)) if c.hint or c.word else c for c in found
    )
    return tuple(sorted(placed, key=lambda c: c.offset))


def keyword_offset(query: Query, name: str, offset: int, word: str = "") -> int:
    """Return the offset of a construct's keyword: the last such word before its first name, or else the next one."""
    words = {w for w in (name.partition(" ")[0], word.upper()) if w.isupper()}
    tokens = query.dialect.tokenize(query.text) if words else []
    found = [t.start for t in tokens if t.text.upper() in words or t.text.upper().partition(" ")[0] in words]
    before = [start for start in found if start <= offset]
    return before[-1] if before else found[0] if found else offset


def over_offset(window: exp.Window) -> int:
    """Return the offset of the text after OVER, for `keyword_offset`: OVER is the last such word before it."""
    function = {id(node) for node in window.this.walk()}
    behind = [i for i in window.find_all(exp.Identifier) if "start" in i.meta and id(i) not in function]
    return min((i.meta["start"] for i in behind), default=offset_of(window))


@dataclass(frozen=True, slots=True)
class Window:
    """A call of TUMBLE, HOP, SESSION or CUMULATE over a column."""

    column: str
    offset: int


def root_windows(windows: WindowIndex) -> tuple[Window, ...]:
    """Return the windows that are not over another window, in the order of the text."""
    calls = [made.call for made in windows.roots()]
    return tuple(Window("" if c.time is None else _describe_time(c.time), offset_of(c.node)) for c in calls)


def _describe_time(time: exp.Expr) -> str:
    return time.name if isinstance(time, exp.Column) else time.sql(comments=False)


def unsupported_problems(constructs: Iterable[Construct], *, never: bool) -> tuple[Problem, ...]:
    """Report the constructs that cannot run, with alternatives: those that no stream can run (`never`), or the rest."""
    return tuple(
        Problem("sql-unsupported", f"{c.name} cannot run as a stream here", c.offset, c.hint, subject=c.name)
        for c in constructs
        if c.hint and c.never == never
    )


def _constructs(tree: exp.Expr, windows: WindowIndex, lookups: frozenset[str]) -> Iterator[Construct]:
    for node in tree.find_all(*_CLASSES):
        match node:
            case exp.Query() if _is_value(node):
                yield Construct("a SELECT as a value", offset_of(node), "use an inner join", "SELECT")
            case exp.Having() if not _has_groups(node):
                hint = "put a condition on single rows into WHERE"
                yield Construct("HAVING without GROUP BY", offset_of(node), hint, never=True)
            case exp.Group():
                yield from _group_constructs(node, windows)
            case exp.Table() if node.args.get("version") and not _is_lookup(node, lookups):
                yield Construct("FOR SYSTEM_TIME AS OF", offset_of(node))
            case exp.Join() if _is_stream_join(node, lookups):
                outer = node.side in {"LEFT", "RIGHT", "FULL"} or node.kind in {"SEMI", "ANTI"}
                yield Construct(f"{node.side or node.kind} JOIN".strip() if outer else "JOIN", offset_of(node))
            case exp.Distinct() if isinstance(node.parent, exp.Select):
                yield Construct("SELECT DISTINCT", offset_of(node.parent))
            case exp.Window():
                yield Construct("OVER", over_offset(node))
            case exp.Order() if isinstance(node.parent, exp.Query):
                hint = "a stream has no end, so it cannot be sorted; remove it"
                yield Construct("ORDER BY", offset_of(node), hint, never=True)
            case exp.Limit() | exp.Fetch():
                hint = "a stream has no end, so it cannot be cut; remove it"
                yield Construct("LIMIT", offset_of(node), hint, never=True)
            case exp.Offset():
                yield Construct("OFFSET", offset_of(node), "a stream has no first rows to skip", never=True)
            case exp.Union() if node.args.get("distinct"):
                yield Construct("UNION", offset_of(node))
            case exp.Intersect():
                yield Construct("INTERSECT", offset_of(node))
            case exp.Except():
                yield Construct("EXCEPT", offset_of(node), _NEVER, never=True)
            case exp.In() | exp.Exists() if isinstance(node, exp.Exists) or node.args.get("query"):
                name = "EXISTS (SELECT …)" if isinstance(node, exp.Exists) else "IN (SELECT …)"
                never = isinstance(node.parent, exp.Not)
                yield Construct(name, offset_of(node), _NEVER if never else "use an inner join", never=never)
            case exp.MatchRecognize():
                hint = "match in a window: SESSION with FILTER aggregates, or LAG over the event time"
                yield Construct("MATCH_RECOGNIZE", offset_of(node), hint, never=True)
            case exp.Pivot() if not node.args.get("unpivot"):
                hint = "write SUM(…) FILTER (WHERE …) for each value, and GROUP BY"
                yield Construct("PIVOT", offset_of(node), hint, never=True)
            case exp.Anonymous() if node.name.upper() in MODEL_CALLS:
                yield Construct(node.name.upper(), offset_of(node))
            case exp.AggFunc() | exp.Anonymous() if _is_ungrouped_aggregate(node):
                yield Construct("an aggregate without GROUP BY", offset_of(node), word=written_name(node))
            case _:
                pass


def _is_stream_join(join: exp.Join, lookups: frozenset[str]) -> bool:
    """Whether both sides of a join are streams."""
    if isinstance(join.this, exp.Unnest | exp.Lateral) or _is_lookup(join.this, lookups):
        return False
    select = join.parent
    if not isinstance(select, exp.Select) or select.args.get("from_") is None:
        return True
    before = [select.args["from_"].this, *(other.this for other in select.args["joins"][: join.index])]
    return not all(_is_lookup(relation, lookups) for relation in before)


def _is_lookup(relation: exp.Expr, lookups: frozenset[str]) -> bool:
    return isinstance(relation, exp.Table) and full_name(relation).casefold() in lookups


def _is_value(query: exp.Query) -> bool:
    """Whether a query is used as a value and not as a table."""
    around = query.parent
    wanted = isinstance(around, exp.In) and query.arg_key == "query"
    return around is not None and not wanted and not isinstance(around, _HOLDS_QUERIES)


def _has_groups(having: exp.Having) -> bool:
    """Whether HAVING has groups or an aggregate. An aggregate without GROUP BY is reported on its own."""
    select = having.parent
    assert isinstance(select, exp.Select)
    aggregates = filter(is_group_aggregate, select.find_all(exp.AggFunc, exp.Anonymous))
    return select.args.get("group") is not None or any(a.parent_select is select for a in aggregates)


def _group_constructs(group: exp.Group, windows: WindowIndex) -> Iterator[Construct]:
    select = group.parent
    known = (windows.made, windows.groups, windows.half)  # a window with one bound only is reported as such
    if not isinstance(select, exp.Select) or not any(id(select) in found for found in known):
        yield Construct("GROUP BY without a window", offset_of(group))
        return
    yield Construct("GROUP BY", offset_of(group))
    for aggregate in distinct_aggregates(select):
        if not can_expand_distinct(aggregate):
            word = written_name(aggregate)
            typed = f"give the type: {word}(DISTINCT CAST(x AS BIGINT)), or " * isinstance(aggregate, exp.Sum | exp.Avg)
            hint = f"{typed}remove DISTINCT"
            yield Construct(f"{word}(DISTINCT …)", offset_of(aggregate), hint, word)


def _is_ungrouped_aggregate(node: exp.Expr) -> bool:
    """Whether a node aggregates rows without GROUP BY. `lint.group_by` reports an aggregate in a wrong place."""
    select = node.parent_select
    if not is_group_aggregate(node) or needs_over(node) or select is None or select.args.get("group") is not None:
        return False
    return not isinstance(node.find_ancestor(exp.Where, exp.Join, exp.Select), exp.Where | exp.Join)
