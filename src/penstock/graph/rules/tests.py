"""Rules for tests."""

from collections.abc import Iterator

from penstock.graph.rules.violation import RuleContext, Violation, missing_texts


def test_rules(ruled: RuleContext) -> Iterator[Violation]:
    rules = ruled.rules.tests
    for test in ruled.project.tests:
        count, least = len(test.value.assertions), rules.min_assertions_per_test
        if least is not None and count < least:
            text = "the test has too few assertions"
            yield Violation("tests.min_assertions_per_test", test, f">= {least}", f"{count}", text)
        yield from missing_texts("tests", test, rules)
    for model, node in ruled.models():
        kinds = {test.element.type for test in ruled.tests_of(node) if test.element.assertions}
        if rules.require_schema_tests and "schema" not in kinds:
            text = "the model has no test of its schema"
            yield Violation("tests.require_schema_tests", model, "a `schema` test", "none", text)
        if rules.require_continuous_for_critical and "critical" in model.value.tags and "continuous" not in kinds:
            text = "a critical model needs a `continuous` test"
            yield Violation("tests.require_continuous_for_critical", model, "a `continuous` test", "none", text)
