"""Rules for models."""

from collections.abc import Iterator

from penstock.graph.graph import Node
from penstock.graph.rules.violation import RuleContext, Violation, missing_tags, missing_texts
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration


def model_rules(ruled: RuleContext) -> Iterator[Violation]:
    for model, node in ruled.models():
        yield from _description_rules(ruled, model)
        yield from _test_count_rules(ruled, model, node)
        yield from _size_rules(ruled, model, node)
        yield from _tag_rules(ruled, model)


def _description_rules(ruled: RuleContext, model: Declaration[written.Model]) -> Iterator[Violation]:
    rules = ruled.rules.models
    description = (model.value.description or "").strip()
    yield from missing_texts("models", model, rules)
    if rules.min_description_length is not None and 0 < len(description) < rules.min_description_length:
        expected, actual = f">= {rules.min_description_length} characters", f"{len(description)}"
        text, hint, at = "the description is too short", "say more", ("description",)
        yield Violation("models.min_description_length", model, expected, actual, text, hint, at)


def _test_count_rules(ruled: RuleContext, model: Declaration[written.Model], node: Node) -> Iterator[Violation]:
    """Check the number of tests. A test without an assertion does not count."""
    rules = ruled.rules.models
    count = sum(bool(test.element.assertions) for test in ruled.tests_of(node))
    hint = f"add a test with `model: {model.value.name}` and assertions"
    if rules.require_tests and count == 0:
        yield Violation("models.require_tests", model, "a test", "none", "the model has no test", hint)
    if rules.min_tests is not None and count < rules.min_tests:
        text = "the model has too few tests"
        yield Violation("models.min_tests", model, f">= {rules.min_tests}", f"{count}", text, hint)


def _size_rules(ruled: RuleContext, model: Declaration[written.Model], node: Node) -> Iterator[Violation]:
    rules = ruled.rules.models
    if rules.max_dependencies is not None and len(node.inputs) > rules.max_dependencies:
        text = f"the model reads {', '.join(i.partition('.')[2] for i in node.inputs)}"
        expected, hint = f"<= {rules.max_dependencies} inputs", "make a model of some of them, and read that"
        yield Violation("models.max_dependencies", model, expected, f"{len(node.inputs)}", text, hint)
    length = len(model.value.sql or "")
    if rules.max_sql_length is not None and length > rules.max_sql_length:
        expected, hint = f"<= {rules.max_sql_length} characters", "split it into several models"
        yield Violation("models.max_sql_length", model, expected, f"{length}", "the SQL is too long", hint, at=("sql",))
    allowed = rules.allowed_materializations
    if allowed and node.materialized not in allowed:
        text = f"the model is materialized as `{node.materialized}`: {node.decided_by}"
        yield Violation("models.allowed_materializations", model, ", ".join(allowed), str(node.materialized), text)


def _tag_rules(ruled: RuleContext, model: Declaration[written.Model]) -> Iterator[Violation]:
    rules = ruled.rules.models
    yield from missing_tags("models.required_tags", model, model.value.tags, rules.required_tags)
    for position, tag in enumerate(model.value.tags):
        if rules.allowed_tags and tag not in rules.allowed_tags:
            expected, text, at = ", ".join(rules.allowed_tags), f"the tag `{tag}` is not allowed", ("tags", position)
            yield Violation("models.allowed_tags", model, expected, tag, text, at=at)
