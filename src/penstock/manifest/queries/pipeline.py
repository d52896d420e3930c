"""The queries of a pipeline: one per set of sinks that share sources."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from penstock.config import OnError
from penstock.connectors.contract import Sink, Source
from penstock.connectors.hybrid import HybridSource, phases_of
from penstock.connectors.kafka_sink import KafkaSink
from penstock.graph.graph import Graph, Node
from penstock.manifest.calls import CalledFunction
from penstock.manifest.connector_config import connector_config
from penstock.manifest.model import Backfill, Check, Every, Input, Phase, QueryOutput, QuerySpec, Step
from penstock.manifest.queries.assembly import called_functions, reader, stream_name
from penstock.row_columns import OP
from penstock.sql.analyze.fallible import fallible_expressions
from penstock.sql.parse.query import tables
from penstock.sql.rewrite.functions import rewrite_pipeline_functions
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.int256 import mentions_int256


def pipeline_queries(graph: Graph) -> Iterator[QuerySpec]:
    for node_ids in _connected_groups(graph):
        nodes = [node for node in graph.nodes.values() if node.id in node_ids]
        inputs: list[Input] = []
        steps: list[Step] = []
        outputs: list[QueryOutput] = []
        for node in nodes:
            match node.element:
                case HybridSource():
                    inputs.append(_hybrid_input(node, ends=graph.job))
                case Source():
                    inputs.append(reader(node.id, node, connector_config(node), node.event_time))
                case Sink() as sink:
                    outputs.append(
                        QueryOutput(
                            node=node.id,
                            view=node.inputs[0],
                            sink=connector_config(node),
                            on_error=_row_error_policy(sink),
                        )
                    )
                case _ if node.query is not None:
                    steps.append(Step(view=node.id, node=node.id, sql=to_spark(node.query)))
                case _:
                    raise AssertionError(f"{node.id} is not an element of a pipeline")
        sinks = [node.element for node in nodes if isinstance(node.element, Sink)]
        fan_out = _reads_twice(nodes)
        yield QuerySpec(
            name=_query_name(nodes),
            inputs=tuple(_relax_input(entry, sinks, by_operation=_asks_for_operations(nodes)) for entry in inputs),
            steps=tuple(steps),
            outputs=tuple(outputs),
            fan_out=fan_out,
            trigger=_shortest_interval(nodes, graph.intervals),
            checks=() if fan_out else _row_checks(nodes),
            functions=tuple(sorted({f.name: f for n in nodes for f in called_functions(n)}.values(), key=_by_name)),
        )


def _by_name(function: CalledFunction) -> str:
    return function.name


def _query_name(nodes: list[Node]) -> str:
    """The name of a query: its first source, or the sink if it is isolated."""
    alone = next((n for n in nodes if isinstance(n.element, Sink) and n.element.isolate), None)
    return (alone or next(n for n in nodes if n.kind == "source")).name


def _hybrid_input(node: Node, *, ends: bool) -> Input:
    """The input of a hybrid source. With `ends`, it stops before the unbounded source."""
    said = connector_config(node)
    *before, live = phases_of(said)
    phases = tuple(Phase(name=stream_name(f"{node.id}#{at}"), source=source) for at, source in enumerate(before))
    backfill = Backfill(phases=phases, offset_table=said.get("offset_table"), is_all=ends)
    return reader(node.id, node, live, node.event_time).model_copy(update={"backfill": backfill})


def _row_error_policy(sink: Sink) -> OnError:
    """What happens to rows on which the SQL fails: the `on_error` of the sink if it is set, not its default for
    rejected rows."""
    return sink.on_error if "on_error" in sink.model_fields_set else "dead_letter"


def _shortest_interval(nodes: list[Node], usual: Mapping[str, int]) -> Every | None:
    sinks = [(node.id, node.element) for node in nodes if isinstance(node.element, Sink)]
    wanted = [usual.get(at) if sink.batch_flush_interval is None else sink.batch_flush_interval for at, sink in sinks]
    given = [interval for interval in wanted if interval is not None]
    return Every(interval_ms=min(given)) if given else None


def _asks_for_operations(nodes: list[Node]) -> bool:
    """Whether any SQL, or a filter of a source, uses `_gs_op`."""
    texts = [node.query.text for node in nodes if node.query is not None]
    texts += [node.element.capabilities.condition or "" for node in nodes if isinstance(node.element, Source)]
    return any(OP in text.casefold() for text in texts)


def _relax_input(entry: Input, sinks: list[Sink], *, by_operation: bool) -> Input:
    """Relax an input: it need not provide what no sink needs."""
    source = dict(entry.source)
    if source["type"] == "kafka" and not (by_operation or any(sink.capabilities.changes for sink in sinks)):
        source["operation"] = False
    any_order = not any(sink.capabilities.ordered for sink in sinks)
    return entry.model_copy(update={"source": source, "any_order": any_order})


def _reads_twice(nodes: list[Node]) -> bool:
    """Whether a node has several readers."""
    reads = Counter(t.name for n in nodes if n.query is not None for t in tables(n.query))
    reads.update(n.inputs[0] for n in nodes if n.kind == "sink")
    return max(reads.values()) > 1


def _connected_groups(graph: Graph) -> Iterator[set[str]]:
    """Groups of sinks that share a source, directly or indirectly, with all their upstream nodes. An isolated sink is a
    group of its own."""
    groups: list[set[str]] = []
    for node in graph.nodes.values():
        if isinstance(node.element, Sink):
            group = graph.upstream(node.id)
            if node.element.isolate:
                yield group
                continue
            shared = [g for g in groups if g & group]
            groups = [g for g in groups if g not in shared]
            groups.append(group.union(*shared))
    yield from groups


def _row_checks(nodes: Sequence[Node]) -> tuple[Check, ...]:
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
    origins: dict[str, tuple[str, tuple[str, ...]]]
    origins = {node.id: (node.id, ()) for node in nodes if node.kind == "source"}
    columns = {node.id: tuple(column.name for column in node.columns or ()) for node in nodes}
    for node in nodes:
        if node.query is None:
            continue
        known = {view: columns[view] for view in origins}
        fails = fallible_expressions(node.query.take_tree(), known, in_spark=rewrite_pipeline_functions)
        for view, expressions in fails.items():
            origin, steps = origins[view]
            found.append(Check(view=view, expressions=expressions, input=origin, steps=steps))
        (read, *others) = node.inputs
        if not others and read in origins:
            origin, steps = origins[read]
            origins[node.id] = origin, (*steps, node.id)
    return tuple(found)


def _is_known(node: Node) -> bool:
    return node.columns is not None and all(c.type is not None and not mentions_int256(c.type) for c in node.columns)
