"""Rules for the topics that a project writes."""

import re
from collections.abc import Iterator
from typing import Final

from penstock.graph.graph import TopicSettings
from penstock.graph.rules.violation import RuleContext, Violation
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration


def topic_rules(ruled: RuleContext) -> Iterator[Violation]:
    for model, node in ruled.models():
        if node.topic is not None:
            yield from _number_rules(ruled, model, node.topic)
            yield from _name_rules(ruled, model, node.topic.name)
            yield from _config_rules(ruled, model, node.topic)
        elif node.materialized == "virtual_topic":
            yield from _name_rules(ruled, model, model.value.virtual_topic)


def _number_rules(ruled: RuleContext, model: Declaration[written.Model], topic: TopicSettings) -> Iterator[Violation]:
    """Check numbers of partitions and replicas. A value that is not set counts as 1."""
    rules = ruled.rules.topics
    limits = (
        ("partitions", topic.partitions, rules.min_partitions, rules.max_partitions),
        ("replication_factor", topic.replication_factor, rules.min_replication_factor, rules.max_replication_factor),
    )
    for field, value, least, most in limits:
        actual = 1 if value is None else value
        at = ("advanced", "topic", field) if value is not None else ()
        shown = f"{actual}" if value is not None else "1, the default"
        where = f"`advanced.topic.{field}`, or `defaults.topic.{field}`"
        low, high = _WORDS[field]
        if least is not None and actual < least:
            text = f"the topic `{topic.name}` has {low}"
            yield Violation(f"topics.min_{field}", model, f">= {least}", shown, text, f"set {where}", at)
        if most is not None and actual > most:
            text = f"the topic `{topic.name}` has {high}"
            yield Violation(f"topics.max_{field}", model, f"<= {most}", shown, text, f"lower {where}", at)


_WORDS: Final = {
    "partitions": ("too few partitions", "too many partitions"),
    "replication_factor": ("too low a replication factor", "too high a replication factor"),
}


def _name_rules(ruled: RuleContext, model: Declaration[written.Model], name: str) -> Iterator[Violation]:
    rules = ruled.rules.topics
    at = ("name",) if model.value.advanced.topic.name is None else ("advanced", "topic", "name")
    hint = "name it with `advanced.topic.name`"
    if rules.naming_pattern is not None and not re.fullmatch(rules.naming_pattern, name):
        text = f"the topic `{name}` does not match the naming pattern"
        yield Violation("topics.naming_pattern", model, rules.naming_pattern, name, text, hint, at)
    for prefix in rules.forbidden_prefixes:
        if name.startswith(prefix):
            text = f"the topic `{name}` begins with `{prefix}`"
            yield Violation("topics.forbidden_prefixes", model, f"no name with `{prefix}…`", name, text, hint, at)
    for suffix in rules.forbidden_suffixes:
        if name.endswith(suffix):
            text = f"the topic `{name}` ends with `{suffix}`"
            yield Violation("topics.forbidden_suffixes", model, f"no name with `…{suffix}`", name, text, hint, at)


def _config_rules(ruled: RuleContext, model: Declaration[written.Model], topic: TopicSettings) -> Iterator[Violation]:
    for key in ruled.rules.topics.required_config:
        if key not in topic.config:
            text = f"the topic `{topic.name}` does not set `{key}`"
            hint = f"set `{key}` in `advanced.topic.config`, or in `defaults.topic.config`"
            yield Violation("topics.required_config", model, f"`{key}`", "nothing", text, hint)
