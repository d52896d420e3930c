"""Checks that sources and sinks are ready, with the requests that queries would make."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

from penstock.connectors.contract import Sink, Source
from penstock.errors import PenstockError
from penstock.graph.graph import Graph
from penstock.manifest.model import Manifest, QueryOutput
from penstock.sql.types.columns import Columns
from penstock.workflow.stages import CheckedProject


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    fine: bool
    detail: str


def finding(what: str, probe: Callable[[], str]) -> Finding:
    """The result of a probe, or its error."""
    try:
        return Finding(what, True, probe())
    except PenstockError as error:
        return Finding(what, False, error.message + (f" ({error.hint})" if error.hint else ""))


def connector_findings(checked: CheckedProject, manifest: Manifest, select: Collection[str] = ()) -> Iterator[Finding]:
    """Check the sources and sinks of queries. Topics that the project creates need not exist."""
    from penstock.runtime.query.resolve_config import ConfigResolver

    filling, seen = ConfigResolver(checked.root, checked.environ, checked.clusters), set[str]()
    chosen = [query for query in manifest.queries if not select or query.name in select]
    for entry in (entry for query in chosen for entry in query.inputs):
        if entry.node.startswith("source.") and entry.node not in seen:
            seen.add(entry.node)
            for source in entry.sources:
                yield finding(_describe_node(entry.node), partial(_source, partial(filling.source, source)))
    for end in (end for query in chosen for end in query.outputs):
        if not _is_own_topic(end):
            columns = _columns(end.node, checked.graph)
            yield finding(_describe_node(end.node), partial(_sink, partial(filling.sink, end.sink, end.node), columns))


def _is_own_topic(output: QueryOutput) -> bool:
    """Whether an output is a topic of the project, which needs only a broker."""
    plain = output.sink["type"] == "kafka" and output.sink.get("data_format") != "avro"
    return output.node.startswith("model.") and (plain or output.sink["type"] == "topic")


def _columns(node_id: str, graph: Graph) -> Columns | None:
    """The known columns of the rows that a node writes."""
    node = graph[node_id]
    if node.columns is not None or not node.inputs:
        return node.columns
    return graph[node.inputs[0]].columns


def _describe_node(node: str) -> str:
    kind, _, name = node.partition(".")
    return f"{'sink' if kind == 'model' else kind} {name}"


def _source(source: Callable[[], Source]) -> str:
    source().check()
    return "ready"


def _sink(sink: Callable[[], Sink], columns: Columns | None) -> str:
    sink().check_rows(columns)
    return "ready"
