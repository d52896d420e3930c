"""Tests that do not run on rows: `validate` reports them in one diagnostic."""

from typing import Final

from penstock.errors import Diagnostic, Severity
from penstock.graph.graph import Graph, LinkedTest
from penstock.manifest.external_resources import has_query
from penstock.manifest.queries.row_rules import rules_of
from penstock.project.stream_project import Model
from penstock.project.stream_project.tests import Assertion

_SHOWN: Final = 3
_HINT: Final = "a `continuous` test of a model, with `on_failure: [{dlq: {}}]`, checks every row that the model writes"


def unrun_tests(graph: Graph) -> Diagnostic | None:
    """The diagnostic about tests that do not run, if there are any. It is not an error, even in strict mode."""
    looked_at = ((test, _unrun_assertions(graph, test)) for test in graph.tests)
    unrun = [(test, kinds) for test, kinds in looked_at if kinds]
    if not unrun:
        return None
    names = [_name(test, kinds) for test, kinds in unrun]
    listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    count = "the only test" if len(graph.tests) == 1 else f"{len(names)} of {len(graph.tests)} tests"
    text = f"Penstock does not run {count}: {listed}. Only columns and values are checked, not rows"
    params = {"tests": ", ".join(test.name for test, _ in unrun)}
    return Diagnostic("test-not-run", text, unrun[0][0].origin, "tests", _HINT, Severity.INFO, params)


def _unrun_assertions(graph: Graph, test: LinkedTest) -> list[str]:
    """The assertions of a test that do not run on rows. Types of columns are checked without rows."""
    if test.element.type == "schema":
        return []
    return [a.kind for a in test.element.assertions if a.accepted_types is None and not _is_run(graph, test, a)]


def _is_run(graph: Graph, test: LinkedTest, assertion: Assertion) -> bool:
    node = graph[test.node]
    is_queried = isinstance(node.element, Model) and bool(node.inputs) and has_query(graph, node)
    return is_queried and bool(rules_of(test, (assertion,), node))


def _name(test: LinkedTest, unrun: list[str]) -> str:
    is_partly_run = len(unrun) < len(test.element.assertions)
    return f"`{test.name}`" + (f" ({', '.join(unrun)})" if is_partly_run else "")
