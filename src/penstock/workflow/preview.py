"""Previews rows of a node."""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from penstock.clients.dead_letters.model import FIELDS, OWNER, DeadLetter
from penstock.clients.files import parquet
from penstock.clients.files.formats import FORMATS, files_under
from penstock.clients.rows.topic_names import ERRORS, dead_letter_topic
from penstock.connectors.contract import Source
from penstock.connectors.registry import open_source
from penstock.connectors.topic import TopicSource
from penstock.errors import Diagnostic, ProjectInvalid, ServiceError
from penstock.graph.graph import Graph
from penstock.manifest.model import Manifest
from penstock.project.yaml.variables import resolve_variables
from penstock.workflow.dead_letters import mask_dead_letters
from penstock.workflow.stages import CheckedProject, compile_project, find_node


def preview_rows(checked: CheckedProject, name: str, limit: int, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """The first rows of a source, model, transform or topic; with `NAME.errors`, its dead letters."""
    manifest = compile_project(checked)
    by_topic = {config["topic"]: node_id for node_id, config in manifest.streams.items() if "topic" in config}
    if name not in by_topic and (topic := _dead_letter_topic(checked.graph, name)):
        return _dead_letters(checked, topic, limit)
    node = find_node(checked.graph, by_topic.get(name, name))
    if node.kind in ("exposure", "sink"):
        text = f"`{name}` is {'an' if node.kind == 'exposure' else 'a'} {node.kind}: it has no rows of its own"
        raise ProjectInvalid([Diagnostic("unknown-node", text, hint="show what it reads from")])
    sources = _node_sources(checked, manifest, node.id)
    if node.id in manifest.streams:
        (source,) = sources
        rows = source.first_rows(limit) if isinstance(source, TopicSource) else None
        if rows is not None:
            return rows
    try:
        for source in sources:
            if source.live.capabilities.has_positions:
                source.live.check()  # Spark needs time to start and would wait for a broker for minutes
    except ServiceError as error:
        if error.code == "topic-missing" and manifest.producer(node.id):
            return []  # a model that has not written anything yet
        raise
    from penstock.clients.jvm.java import find_java

    find_java()
    from penstock.runtime.run.preview import peek
    from penstock.runtime.spark.session import spark_session
    from penstock.workflow.packages import fetch_packages, packages_of

    jars = fetch_packages(packages_of(manifest, checked.environ), say)
    with spark_session(manifest.spark, checked.place.logs, jars) as spark:
        return peek(manifest, node.id, checked.root, spark, limit, checked.environ, checked.clusters)


def _dead_letters(checked: CheckedProject, topic: str, limit: int) -> list[dict[str, Any]]:
    """The dead letters of an error topic, without the values of masked and classified columns. They may have been
    stored before these columns were masked.
    """
    if checked.clusters.sink is None:
        files = files_under(TopicSource(topic=topic).with_root(checked.root).path(), FORMATS["parquet"])
        rows = parquet.first_rows(files, limit, _BYTES)
        shown = mask_dead_letters(checked, [_parse_row(topic, place, row) for place, row in enumerate(rows)])
        return [{name: dead_letter.about[name] for name in row} for row, dead_letter in zip(rows, shown, strict=True)]
    from penstock.clients.dead_letters.kafka import read_from_topics

    found = islice(read_from_topics(checked.clusters.sink.kafka, [topic]), limit)
    names = (*FIELDS, OWNER)
    return [{name: dead_letter.about[name] for name in names} for dead_letter in mask_dead_letters(checked, found)]


_BYTES: Final = ("key", "value")


def _parse_row(topic: str, place: int, row: dict[str, Any]) -> DeadLetter:
    key, value = (row.get(part) for part in _BYTES)
    texts = {part: parquet.decode_text(row.get(part)) for part in _BYTES}
    return DeadLetter(topic, "", place, {**dict.fromkeys(FIELDS), **row, **texts}, key, value)


def _node_sources(checked: CheckedProject, manifest: Manifest, node_id: str) -> list[Source]:
    """The sources that the rows of a node are read from."""
    query = next((q for q in manifest.queries if any(step.view == node_id for step in q.steps)), None)
    inputs = [] if query is None else [entry.source for entry in query.inputs]
    found = [manifest.streams[node_id]] if node_id in manifest.streams else inputs
    configs = [resolve_variables(config, checked.environ)[0] for config in found]
    return [open_source(config, checked.root, checked.clusters) for config in configs]


def _dead_letter_topic(graph: Graph, name: str) -> str | None:
    """The error topic of a source or model, if the name is one."""
    of = graph.find_node(name.removesuffix(ERRORS)) if name.endswith(ERRORS) and graph.find_node(name) is None else None
    return dead_letter_topic(of.id) if of is not None and of.kind not in ("exposure", "sink") else None
