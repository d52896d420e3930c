"""Checks a linked pipeline as a whole: keys, consumers, bounded sources, types."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from posixpath import normpath
from typing import Any

from penstock.config import NODE
from penstock.connectors.contract import Sink, Source
from penstock.connectors.file import FileSource
from penstock.connectors.file_sink import FileSink
from penstock.errors import Diagnostic, Severity, did_you_mean
from penstock.graph.graph import Graph, Node
from penstock.project.project import Pipeline
from penstock.project.validation.declaration import Declaration


def check_pipeline(pipeline: Pipeline, graph: Graph) -> Iterator[Diagnostic]:
    """The diagnostics that need several nodes."""
    written: dict[str, Declaration[Any]] = {**pipeline.sources, **pipeline.transforms, **pipeline.sinks}
    open_keys = _undecided_keys(graph)
    yield from _unbounded_sources(pipeline)
    yield from _find_feedback(pipeline)
    yield from _missing_sink_keys(pipeline, graph, open_keys)
    enforced = pipeline.settings.enforce_primary_keys
    if not enforced:
        yield from _missing_transform_keys(pipeline, graph, open_keys)
    for node in graph.nodes.values():
        yield from _missing_event_time(node, written[node.name])
        yield from _missing_node_key(node, written[node.name], enforced=enforced, is_open=node.id in open_keys)


def find_orphans(graph: Graph, pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Report sources and transforms without a consumer, in one diagnostic at the first of them."""
    written: dict[str, Declaration[Any]] = {**pipeline.sources, **pipeline.transforms}
    unread = [id for id, readers in graph.consumers().items() if not readers and graph[id].kind != "sink"]
    names = [graph[node_id].name for node_id in unread]
    if names:
        listed = ", ".join(names)
        text = (
            f"Source(s) and/or transform(s) have no consumers: {listed}."
            " Remove them or connect them to a transform or sink."
        )
        first = written[names[0]]
        places = "; ".join(f"`{name}` is at {written[name].origin}" for name in names[1:])
        yield first.diagnostic("no-consumer", text, places or None, name=listed)


def name_affected_sinks(found: Iterable[Diagnostic], graph: Graph) -> Iterator[Diagnostic]:
    """Add the affected sinks to type errors in SQL."""
    by_path = {f"transforms.{n.name}.sql": n for n in graph.nodes.values() if n.kind == "transform"}
    for diagnostic in found:
        node = by_path.get(diagnostic.path)
        if diagnostic.code != "sql-argument" or node is None or node.columns is None:
            yield diagnostic
            continue
        below = graph.downstream(node.id)
        sinks = ", ".join(n.name for n in graph.nodes.values() if n.kind == "sink" and n.id in below)
        failed = "the query plan contains type errors that would crash at runtime"
        text = f"SQL validation failed for sink [{sinks}]: {failed}: {diagnostic.message}"
        yield replace(diagnostic, message=text) if sinks else diagnostic


def _undecided_keys(graph: Graph) -> frozenset[str]:
    """The nodes without a key that may get one when their systems are asked."""
    found: set[str] = set()
    for node in graph.nodes.values():  # nodes come after their inputs
        element = node.element.live if isinstance(node.element, Source) else None
        may_find_key = element is not None and element.capabilities.finds_key and node.columns is None
        if not node.key and (may_find_key or found.intersection(node.inputs)):
            found.add(node.id)
    return frozenset(found)


def _find_feedback(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Report a sink that writes into the directory that a source reads: its rows would come back."""
    for name, sink in pipeline.sinks.items():
        for other, source in pipeline.sources.items():
            if not (isinstance(sink.value, FileSink) and isinstance(source.value, FileSource)):
                continue
            into, of = (f"{normpath(file.path)}/" for file in (sink.value, source.value))
            if into.startswith(of) and sink.value.format == source.value.format:
                text = f"sink '{name}' writes into the directory that source '{other}' reads, so its rows come back"
                yield sink.diagnostic("cycle", text, "give one of them another path", at=("path",), path=name)


def _unbounded_sources(pipeline: Pipeline) -> Iterator[Diagnostic]:
    """Report unbounded sources in job mode."""
    for name, declared in pipeline.sources.items():
        if pipeline.settings.job_mode and not declared.value.capabilities.ends_as_job:
            text = (
                f"job_mode is enabled but the following source(s) do not support it: '{name}'."
                " Job mode is only supported for pipelines where every source is a hybrid or file (bounded) source,"
                " or another one that ends"
            )
            hint = "give it an end, such as `mode: {type: bounded}` of a `file` source, or turn `job_mode` off"
            yield declared.diagnostic("source-unbounded", text, hint, name=name)


def _missing_sink_keys(pipeline: Pipeline, graph: Graph, open_keys: Collection[str]) -> Iterator[Diagnostic]:
    """Report sinks that need a key and have none."""
    for name, declared in pipeline.sinks.items():
        node, wanted = graph[f"sink.{name}"], declared.value.capabilities.key_message
        if wanted is not None and not node.key and node.inputs and node.id not in open_keys:
            text, label = wanted.replace(NODE, name), f"{declared.label}.primary_key"
            params = {"field": "primary_key"}
            yield Diagnostic("missing-field", text, declared.origin, label, "add `primary_key: …`", params=params)


def _missing_event_time(node: Node, declared: Declaration[Any]) -> Iterator[Diagnostic]:
    """Report an event-time column that the known columns do not have."""
    telemetry = declared.value.telemetry
    named = telemetry.event_time.column if telemetry is not None and telemetry.event_time is not None else None
    present = [column.name for column in node.columns or ()]
    if named is not None and node.columns is not None and named.casefold() not in map(str.casefold, present):
        text, hint = f"the {node.kind} has no column `{named}`", did_you_mean(named, present)
        at = ("telemetry", "event_time", "column")
        yield declared.diagnostic("event-time-missing", text, hint, at=at, severity=Severity.WARNING)


def _missing_transform_keys(pipeline: Pipeline, graph: Graph, open_keys: Collection[str]) -> Iterator[Diagnostic]:
    """Report transforms that inherit their key from inputs without a key."""
    for node in graph.nodes.values():
        if node.kind == "transform" and not node.key and node.inputs and node.id not in open_keys:
            text = "this field is required: none of the keys of its inputs is in its output"
            declared, hint, field = pipeline.transforms[node.name], "add `primary_key: …`", "primary_key"
            yield declared.diagnostic("missing-field", text, hint, at=(field,), field=field)


def _missing_node_key(node: Node, declared: Declaration[Any], *, enforced: bool, is_open: bool) -> Iterator[Diagnostic]:
    """Report a node without a primary key if every node must have one; else a sink that would upsert with one. If the
    key is not known yet, it is only a note.
    """
    needs_it = isinstance(node.element, Sink) and node.element.capabilities.key_message is not None
    misses_it = isinstance(node.element, Sink) and node.element.capabilities.keyed and not needs_it
    misses_it = misses_it and node.columns is not None and not is_open
    if node.key or not (enforced or misses_it):
        return
    severity = Severity.ERROR if enforced and not is_open else Severity.INFO
    if node.kind == "source":
        text = f"Can't determine primary key for source '{node.name}'" + (" before its system is asked" * is_open)
        hint = "add `primary_key: …`; `--check-schemas` asks, and so do `plan` and `run`"
    elif is_open:
        return
    elif node.inputs:
        text = f"Cannot propagate primary key to {node.kind} '{node.name}': nothing that it reads has one"
        text += "" if enforced else ", so rows are only appended: a log of changes"
        hint = "add `primary_key: …` to it, or to what it reads"
    else:
        return  # its input is unknown, which another diagnostic reports
    yield declared.diagnostic("primary-key-unknown", text, hint, severity=severity)
