"""Checks the topics of a project: names and writers."""

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from penstock.clients.rows.topic_names import TOPIC_NAME
from penstock.errors import Diagnostic
from penstock.graph.graph import Node, TopicSettings
from penstock.project import stream_project as written
from penstock.project.project import StreamProject
from penstock.project.validation.declaration import Declaration

TopicElement: TypeAlias = Declaration[written.Source] | Declaration[written.Model]
NAME_HINT: Final = "use letters, digits, `.`, `_` and `-`, at most 249 of them"


def check_topic_name(declared: TopicElement) -> list[Diagnostic]:
    return invalid_name(declared, declared.value.topic, _naming_field(declared))


def invalid_name(declared: TopicElement, name: str, field: tuple[str, ...]) -> list[Diagnostic]:
    """Report a name, from a field of the element, that is not a valid topic name."""
    if re.fullmatch(TOPIC_NAME, name):
        return []
    return [declared.diagnostic("invalid-value", f"`{name}` is not a valid topic name", NAME_HINT, at=field)]


def topic_clashes(project: StreamProject, nodes: Mapping[str, Node]) -> list[Diagnostic]:
    """Report topics with several writers."""
    writers: dict[str, TopicElement] = {}
    for source in project.sources:
        writers.setdefault(source.value.topic, source)
    clashes = []
    for model in project.models:
        node = nodes.get(f"model.{model.value.name}")
        if node is None or node.topic is None:
            continue
        topic, field = node.topic.name, _naming_field(model)
        if (first := writers.setdefault(topic, model)) is not model:
            text = f"the topic `{topic}` is already written by {first.label}"
            hint = "give it another name with `advanced: {topic: {name: …}}`"
            clashes.append(model.diagnostic("duplicate-name", text, hint, at=field, name=topic))
    return clashes


def schema_clashes(project: StreamProject) -> list[Diagnostic]:
    """Report subjects with several schemas."""
    first: dict[str, Declaration[written.Source]] = {}
    clashes = []
    for source in project.sources:
        schema = source.value.schema_
        if schema is None or schema.definition is None:
            continue
        subject = source.value.subject
        other = first.setdefault(subject, source).value.schema_
        if other is not None and other.definition != schema.definition:
            text = f"the subject `{subject}` has another schema in {first[subject].label}"
            clashes.append(source.diagnostic("duplicate-name", text, at=("schema",), name=subject))
    return clashes


def topic_settings(model: written.Model, defaults: written.Defaults) -> TopicSettings:
    """The topic settings of a model; then of the defaults for models; then of those for topics."""
    own, weaker, weakest = model.advanced.topic, defaults.models.topic, defaults.topic

    def first(*values: int | None) -> int | None:
        return next((value for value in values if value is not None), None)

    return TopicSettings(
        model.topic,
        first(own.partitions, weaker.partitions, weakest.partitions),
        first(own.replication_factor, weaker.replication_factor, weakest.replication_factor),
        {**weakest.config, **weaker.config, **own.config},
    )


def _naming_field(declared: TopicElement) -> tuple[str, ...]:
    """The field that gives the topic its name."""
    if isinstance(declared.value, written.Source):
        return ("topic",)
    return ("name",) if declared.value.advanced.topic.name is None else ("advanced", "topic", "name")
