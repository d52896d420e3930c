"""Row rules of continuous tests with `on_failure: {dlq: …}`, and the tests that do not run on rows."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from penstock.errors import Diagnostic, Severity
from penstock.graph.graph import Graph, LinkedTest, Node
from penstock.manifest.external_resources import has_query
from penstock.manifest.model import RowRule
from penstock.project.stream_project import Model
from penstock.project.stream_project import tests as asked
from penstock.sql.analyze.row_conditions import row_condition
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.rewrite.render import spark_literal

_TIMES: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")


def row_rules(graph: Graph, node: Node) -> tuple[RowRule, ...]:
    """The rules for the rows of a model. Rows that meet the conditions pass."""
    tests = [test for test in graph.tests if test.node == node.id]
    return tuple(rule for test in tests for rule in _rules_of(test, test.element.assertions, node))


def _rules_of(test: LinkedTest, assertions: Iterable[asked.Assertion], node: Node) -> tuple[RowRule, ...]:
    """The rules of a test's assertions. Tests without `dlq` have none."""
    if test.element.type != "continuous" or not _has_dlq_action(test.element):
        return ()
    return tuple(
        RowRule(test=test.name, said=said, condition=condition)
        for assertion in assertions
        for said, condition in _conditions(assertion.body, node)
    )


def unsupported_rules(node: Node, rules: Sequence[RowRule]) -> list[str]:
    """Report models with rules that Spark writes by itself: rules are checked in Penstock's batches."""
    assert isinstance(node.element, Model)
    job = node.element.advanced.spark
    unseen = job.trigger == "realtime" or job.async_progress
    return ["tests with `dlq`, in real time or with asynchronous progress"] if rules and unseen else []


def _has_dlq_action(test: asked.DataTest) -> bool:
    return any(action.dlq is not None for action in test.on_failure.actions)


def _conditions(body: Any, node: Node) -> Iterator[tuple[str, str]]:
    match body:
        case asked.NotNull(columns=columns):
            for column in columns:
                yield f"`{column}` is null", f"{quote_spark_identifier(column)} IS NOT NULL"
        case asked.AcceptedValuesOf(column=column, values=values):
            shown = ", ".join(map(spark_literal, values))
            yield f"`{column}` is not one of {shown}", _is_one_of(column, values, _type_of(column, node))
        case asked.RangeOf(column=column, min=low, max=high):
            if low is not None:
                yield f"`{column}` is below {low:g}", f"{quote_spark_identifier(column)} >= {_number(low)}"
            if high is not None:
                yield f"`{column}` is above {high:g}", f"{quote_spark_identifier(column)} <= {_number(high)}"
        case asked.Positive(columns=columns, allow_zero=allow_zero):
            for column in columns:
                yield f"`{column}` is not positive", f"{quote_spark_identifier(column)} {'>=' if allow_zero else '>'} 0"
        case asked.CustomSql(name=name, where=str(where)):
            if (condition := row_condition(where)) is not None:
                yield name, f"NOT coalesce(({condition}), false)"


def _is_one_of(column: str, values: Sequence[Any], type_: str | None) -> str:
    """The condition of a value list. A column of unknown type is compared as text, which cannot fail."""
    listed = ", ".join(map(spark_literal, values))
    if type_ in _TIMES:
        listed = ", ".join(f"CAST({spark_literal(value)} AS {type_})" for value in values)
    is_open = type_ is None and any(isinstance(value, str) for value in values)
    name = quote_spark_identifier(column)
    return f"{f'CAST({name} AS STRING)' if is_open else name} IN ({listed})"


def _type_of(column: str, node: Node) -> str | None:
    return next((c.type for c in node.columns or () if c.name.casefold() == column.casefold()), None)


def _number(bound: float) -> str:
    """A bound without an exponent. With one, Spark would read a DOUBLE."""
    return f"{Decimal(repr(bound)):f}"


_SHOWN: Final = 3
_HINT: Final = "a `continuous` test of a model, with `on_failure: [{dlq: {}}]`, checks every row that the model writes"


def unrun_tests(graph: Graph) -> Diagnostic | None:
    """The diagnostic about tests that do not run, if there are any. It is not an error, even in strict mode."""
    looked_at = ((test, _unrun_assertions(graph, test)) for test in graph.tests)
    unrun = [(test, kinds) for test, kinds in looked_at if kinds]
    if not unrun:
        return None
    names = [_describe_unrun(test, kinds) for test, kinds in unrun]
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


def _is_run(graph: Graph, test: LinkedTest, assertion: asked.Assertion) -> bool:
    node = graph[test.node]
    is_queried = isinstance(node.element, Model) and bool(node.inputs) and has_query(graph, node)
    return is_queried and bool(_rules_of(test, (assertion,), node))


def _describe_unrun(test: LinkedTest, unrun: list[str]) -> str:
    is_partly_run = len(unrun) < len(test.element.assertions)
    return f"`{test.name}`" + (f" ({', '.join(unrun)})" if is_partly_run else "")
