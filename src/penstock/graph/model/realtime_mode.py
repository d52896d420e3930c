"""Which queries can use Spark's real-time mode and asynchronous progress, and why others cannot. The real-time mode of
Spark 4.2 accepts Kafka as source and sink, and operators without state, shuffle or Python. Anything else ends the query
when it starts. Asynchronous progress is for Kafka as sink, and for queries without state.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from penstock.errors import Diagnostic, Severity
from penstock.graph.graph import Node
from penstock.graph.model.changelog_mode import is_lookup_table
from penstock.graph.model.state_settings import no_effect_on_view
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration
from penstock.sql.parse.query import tables

REALTIME: Final = "real-time mode"
ASYNC_PROGRESS: Final = "asynchronous progress"
_SHORTEST_MS: Final = 5_000


def realtime_obstacles(node: Node, nodes: Mapping[str, Node], *, kafka: bool) -> Iterator[str]:
    """Every reason why the query of a model cannot run in real-time mode. `kafka` says whether topics are in Kafka.

    Views that the query reads are part of it.
    """
    yield from _system_obstacles(node, kafka=kafka)
    if isinstance(node.element, written.Model):
        interval = node.element.advanced.spark.checkpoint_interval_ms
        if interval is not None and interval < _SHORTEST_MS:
            yield f"`checkpoint_interval_ms` is {interval}, and must be at least {_SHORTEST_MS}"
    within = list(_query_nodes(node, nodes))
    yield from _state_obstacles(within)
    yield from _lookup_obstacles(within, nodes)
    if any(part.asks for part in within):
        yield "it calls a machine-learning model, which runs in Python"
    for name in dict.fromkeys(function.name for part in within for function in part.functions):
        yield f"it calls `{name}`, which runs in Python"
    reads = Counter(name for part in within for name in _read_names(part) if not _is_view(nodes.get(name)))
    for name in (name for name, count in reads.items() if count > 1):
        yield f"it reads `{name.partition('.')[2]}` more than once"


def async_obstacles(node: Node, nodes: Mapping[str, Node], *, kafka: bool) -> tuple[str, ...]:
    """Every reason why a model's query cannot use asynchronous progress."""
    assert isinstance(node.element, written.Model)
    realtime = node.element.advanced.spark.trigger == "realtime"
    own = ("real-time mode commits its progress in its own way",) if realtime else ()
    within = list(_query_nodes(node, nodes))
    return (*_system_obstacles(node, kafka=kafka), *own, *_state_obstacles(within), *_lookup_obstacles(within, nodes))


def _system_obstacles(node: Node, *, kafka: bool) -> Iterator[str]:
    if not kafka:
        yield "its topics are directories, and only those of Kafka can be read and written so"
    if isinstance(node.element, written.Model) and node.topic is None and node.element.advanced.connector:
        yield f"it writes with `{node.element.advanced.connector.type}`, not to a topic"


def _state_obstacles(within: Iterable[Node]) -> Iterator[str]:
    for operator in dict.fromkeys(name for part in within for name in part.operators):
        yield f"{operator} keeps state"


def _lookup_obstacles(within: Iterable[Node], nodes: Mapping[str, Node]) -> Iterator[str]:
    for name in dict.fromkeys(name for part in within for name in _read_names(part)):
        if (read := nodes.get(name)) is not None and is_lookup_table(read):
            yield f"it looks rows up in `{read.name}`, which is loaded before each batch"


def trigger_notes(declared: Declaration[written.Model], node: Node, reasons: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Diagnostics about a model's trigger."""
    at, severity, name = ("advanced", "spark", "trigger"), Severity.WARNING, node.name
    if reasons:
        text = f"`{name}` cannot run in real-time mode: {'; '.join(reasons)}"
        hint = "remove `trigger` to run batches as fast as possible"
        yield declared.diagnostic("realtime-unsupported", text, hint, at=at, severity=severity, query=name)
    if _is_view(node) and declared.value.advanced.spark.trigger is not None:
        yield no_effect_on_view(declared, "trigger")


def async_notes(declared: Declaration[written.Model], node: Node, reasons: tuple[str, ...]) -> Iterator[Diagnostic]:
    """Diagnostics about asynchronous progress of a model."""
    at, severity, name = ("advanced", "spark", "async_progress"), Severity.WARNING, node.name
    if _is_view(node):
        yield no_effect_on_view(declared, "async_progress")
    elif reasons:
        text = f"`{name}` cannot use asynchronous progress: {'; '.join(reasons)}"
        hint = "remove `async_progress`: progress is then committed after every batch"
        yield declared.diagnostic("async-progress-unsupported", text, hint, at=at, severity=severity, query=name)


def _query_nodes(node: Node, nodes: Mapping[str, Node]) -> Iterator[Node]:
    """The model and the views in its query, as often as they are read."""
    yield node
    for name in _read_names(node):
        if (read := nodes.get(name)) is not None and _is_view(read):
            yield from _query_nodes(read, nodes)


def _read_names(node: Node) -> list[str]:
    return [table.name for table in tables(node.query)] if node.query is not None else list(node.inputs)


def _is_view(node: Node | None) -> bool:
    return node is not None and node.materialized == "virtual_topic"
