"""Row checks of a pipeline that run before rows are written to a system that cannot roll back."""

from collections.abc import Sequence

from penstock.connectors.contract import Sink
from penstock.connectors.hybrid import HybridSource
from penstock.connectors.kafka_sink import KafkaSink
from penstock.graph.graph import Node
from penstock.manifest.model import Check
from penstock.sql.analyze.fallible import fallible_expressions
from penstock.sql.rewrite.functions import rewrite_pipeline_functions
from penstock.sql.types.int256 import mentions_int256


def row_checks(nodes: Sequence[Node]) -> tuple[Check, ...]:
    """The expressions on which rows may fail on their way to Kafka, by view. If column types are unknown, for 256-bit
    integers, and for hybrid sources, failing rows are found afterwards."""
    sinks = [node.element for node in nodes if isinstance(node.element, Sink)]
    if len(sinks) > 1 or not isinstance(sinks[0], KafkaSink) or sinks[0].on_error == "stop":
        return ()
    if any(isinstance(node.element, HybridSource) for node in nodes):
        return ()
    if not all(_is_known(node) for node in nodes if node.kind != "sink"):
        return ()
    found: list[Check] = []
    ways: dict[str, tuple[str, tuple[str, ...]]] = {node.id: (node.id, ()) for node in nodes if node.kind == "source"}
    columns = {node.id: tuple(column.name for column in node.columns or ()) for node in nodes}
    for node in nodes:
        if node.query is None:
            continue
        fails = fallible_expressions(
            node.query.take_tree(), {view: columns[view] for view in ways}, in_spark=rewrite_pipeline_functions
        )
        for view, expressions in fails.items():
            origin, steps = ways[view]
            found.append(Check(view=view, expressions=expressions, input=origin, steps=steps))
        (read, *others) = node.inputs
        if not others and read in ways:
            origin, steps = ways[read]
            ways[node.id] = origin, (*steps, node.id)
    return tuple(found)


def _is_known(node: Node) -> bool:
    return node.columns is not None and all(c.type is not None and not mentions_int256(c.type) for c in node.columns)
