"""Event time that a view declares."""

from collections.abc import Iterator, Mapping

from penstock.errors import Diagnostic
from penstock.graph.graph import Node
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration
from penstock.sql.rewrite.computed_event_time import has_computed_time
from penstock.sql.rewrite.translate import needs_time


def is_computed_time(node: Node, column: str) -> bool:
    """Whether a view computes a column, and it is not the end of a window."""
    found = [o for name, listed in node.column_origins.items() if name.casefold() == column.casefold() for o in listed]
    passed = [origin.way for origin in found] == ["same"]
    return node.materialized == "virtual_topic" and node.query is not None and not passed and not _has_window(node)


def _has_window(node: Node) -> bool:
    return node.query is not None and needs_time(node.query.tree)


def check_view_time(
    declared: Declaration[written.Model], node: Node, inputs: Mapping[str, Node]
) -> Iterator[Diagnostic]:
    """Report an event time that a view computes from more than the rows of one topic: Spark cannot put a watermark on
    it."""
    said = declared.value.event_time
    if said is None or said.column is None or not is_computed_time(node, said.column):
        return
    assert node.query is not None
    below = list(inputs.values())
    views = [n.name for n in below if n.materialized == "virtual_topic"]
    if len(below) == 1 and not views and has_computed_time(node.query, said.column):
        return
    text = f"`{said.column}` is computed inside the view `{node.name}`, and is no event time there"
    hint = f"materialize `{node.name}` as a topic"
    if views:
        hint += f", or compute it in `{views[0]}`"
    place = ("event_time", "column")
    params = {"column": said.column}
    origin, path = declared.origin_of(*place), declared.label_of(*place)
    yield Diagnostic("window-without-event-time", text, origin, path, hint, params=params)
