"""The changelog mode of a node (append-only, or changes by key) and what it requires of its readers."""

from collections.abc import Iterator, Sequence

from penstock.graph.graph import Node
from penstock.project.stream_project import Source
from penstock.sql.analyze.analysis import QueryAnalysis
from penstock.sql.parse.query import Problem
from penstock.sql.rewrite.mask import ColumnMask
from penstock.sql.stateful.stages import Flow


def node_flow(node: Node) -> Flow:
    """The flow of the node, for a query that reads it."""
    columns = None if node.columns is None else tuple(c.name for c in node.columns)
    times = frozenset({node.event_time.column.casefold()} if node.event_time else ())
    written = node.materialized != "virtual_topic"
    declared = node.element.columns if isinstance(node.element, Source) else ()
    clocks = frozenset(c.name.casefold() for c in declared if c.proctime)
    return Flow(
        node.flow,
        node.change_key,
        columns,
        times,
        clocks,
        static=is_lookup_table(node),
        lateness_ms=max((time.lateness_ms for time in node.times), default=0),
        keeps_late=any(time.keeps_late for time in node.times),
        mixed=node.mixed,
        stale=frozenset(time.column.casefold() for time in node.times if time.unordered and written),
    )


def is_lookup_table(node: Node) -> bool:
    """Whether the node is a lookup table, which emits no rows itself."""
    return isinstance(node.element, Source) and node.element.table is not None


def find_change_key(found: QueryAnalysis, declared: tuple[str, ...]) -> tuple[tuple[str, ...], Problem | None]:
    """The key columns of changes. Updates cannot be applied without them."""
    if found.flow == "rows":
        return (), None
    if found.change_key or declared:
        return found.change_key or declared, None
    if found.flow == "signed":
        return (), None
    hint = "select the columns that it groups or partitions by, or give the model a `key`"
    text = "the output has changes, but no key to apply them by"
    return (), Problem("sql-unsupported", text, 0, hint, "changes without a key")


def masked_keys(key: tuple[str, ...], masks: Sequence[ColumnMask]) -> list[Problem]:
    """Report masks that map different keys to one value, so that changes would overwrite each other."""
    folded = {name.casefold() for name in key}
    hint = "mask it by `hash` or `tokenize`, or in a model that reads this one"
    found = []
    for mask in masks:
        if mask.column.casefold() in folded and mask.policy not in ("hash", "tokenize"):
            text = f"`{mask.column}` is a key of changes, and `{mask.policy}` makes different keys equal"
            found.append(Problem("sql-unsupported", text, 0, hint, mask.column))
    return found


def unbounded_state(found: QueryAnalysis) -> Iterator[Problem]:
    """Warn about state that grows without limit."""
    for name, offset, way_out in found.unbounded:
        text = f"the state of {name} grows with every new key, without a limit"
        hint = "set an expiry: `advanced.spark.state_ttl_ms`, in milliseconds" + f"; or {way_out}" * bool(way_out)
        yield Problem("state-unbounded", text, offset, hint, name)
