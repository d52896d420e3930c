"""Describes a compiled project as a `Site`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from penstock.errors import Diagnostic
from penstock.graph.graph import Graph, LinkedTest, Node
from penstock.graph.lineage import describe_changes
from penstock.graph.stream_project.data_tests import assertion_columns
from penstock.keyed.operators import describe_operator
from penstock.manifest.graph_model import DagColumn
from penstock.manifest.model import KeyedStep, Manifest, Step
from penstock.project import stream_project as written
from penstock.project.yaml.secrets import mask_secrets
from penstock.site.model import Site, SiteColumn, SiteFunction, SiteNode, SiteNote, SiteRule, SiteTest
from penstock.sql.rewrite.render import format_sql
from penstock.sql.types.user_functions import UserFunction
from penstock.transforms.sql import SqlTransform

_RULES_FOR: Final[Mapping[str, tuple[str, ...]]] = {
    "source": ("sources", "security"),
    "model": ("models", "topics", "tests", "security"),
    "exposure": ("exposures",),
}
_STATUS: Final[Mapping[str, Any]] = {"rule-broken": "broken", "rule-waived": "waived"}


def describe(graph: Graph, manifest: Manifest, notes: Sequence[Diagnostic], environment: str | None) -> Site:
    columns = {node.id: node.columns for node in manifest.dag.nodes}
    about = manifest.project
    return Site(
        name=about.name,
        version=about.version,
        description=about.description,
        environment=environment,
        nodes=tuple(_node(node, columns[node.id], graph, manifest, notes) for node in graph.nodes.values()),
        edges=graph.edges,
        notes=tuple(
            SiteNote(n.severity.value, n.code, n.message, str(n.origin) if n.origin else None, n.path) for n in notes
        ),
        functions=tuple(_function(function, graph) for function in graph.functions.values()),
    )


def _function(function: UserFunction, graph: Graph) -> SiteFunction:
    used_by = tuple(node.id for node in graph.nodes.values() if function in node.functions)
    place = f"{function.file}:{function.line}"
    return SiteFunction(function.name, function.signature, place, function.description, used_by)


def _node(
    node: Node, columns: tuple[DagColumn, ...] | None, graph: Graph, manifest: Manifest, notes: Sequence[Diagnostic]
) -> SiteNode:
    element = node.element
    tests = [test for test in graph.tests if test.node == node.id]
    return SiteNode(
        id=node.id,
        kind=node.kind,
        name=node.name,
        label=node.label,
        description=node.description,
        owner=node.owner,
        group=node.group,
        access=_access(element),
        tags=node.tags,
        topic=_topic(node),
        url=mask_secrets(element.url) if isinstance(element, written.Exposure) else None,
        origin=str(node.origin),
        columns=None if columns is None else tuple(_column(column, tests) for column in columns),
        sql_written=element.sql if isinstance(element, written.Model | SqlTransform) else None,
        sql_run=_sql_run(node, manifest),
        decided_by=node.decided_by,
        key=node.key,
        event_time=_event_time(node),
        tests=tuple(_test(test) for test in tests),
        rules=tuple(_rules(node, graph, notes)),
        facts=tuple(_facts(node)),
    )


def _access(element: object) -> str | None:
    if not isinstance(element, written.Model) or element.access is None:
        return None
    groups = ", ".join(element.access.allowed_groups)
    return f"{element.access.level} ({groups})" if groups else element.access.level


def _topic(node: Node) -> str | None:
    if node.topic is not None:
        return node.topic.name
    return node.element.topic if isinstance(node.element, written.Source) else None


def _column(column: DagColumn, tests: Sequence[LinkedTest]) -> SiteColumn:
    return SiteColumn(
        name=column.name,
        type=column.type,
        description=column.description,
        classification=column.classification,
        masking=column.masking,
        tests=tuple(dict.fromkeys(_tests_of_column(column.name, tests))),
        origins=tuple((origin.node, origin.column) for origin in column.from_),
    )


def _tests_of_column(name: str, tests: Sequence[LinkedTest]) -> Iterator[str]:
    for test in tests:
        for assertion in test.element.assertions:
            if name.casefold() in {word.casefold() for word in assertion_columns(assertion)}:
                yield assertion.kind


def _sql_run(node: Node, manifest: Manifest) -> str | None:
    """The SQL that Spark runs for a node, in its own query or, for a view, in the first one that reads it."""
    own = manifest.producer(node.id)
    steps = [step for query in ([own] if own else manifest.queries) for step in query.steps if step.node == node.id]
    texts = [format_sql(step.sql) if isinstance(step, Step) else _operator(step) for step in steps]
    return "\n\n".join(texts) or None


def _operator(step: KeyedStep) -> str:
    return f"-- {step.view}: {describe_operator(step.operator)} over {', '.join(step.inputs)}"


def _event_time(node: Node) -> str | None:
    time = node.event_time
    return f"{time.column}, up to {time.delay_ms / 1000:g} s late" if time else None


def _test(test: LinkedTest) -> SiteTest:
    shown = tuple(_assertion(assertion) for assertion in test.element.assertions)
    return SiteTest(test.name, test.element.type, test.element.description, shown)


def _assertion(assertion: written.Assertion) -> str:
    """An assertion as one line: its name and its settings."""
    body = assertion.body.model_dump(mode="json", exclude_defaults=True)
    return f"{assertion.kind}: " + ", ".join(f"{key} {_plain(value)}" for key, value in body.items())


def _plain(value: Any) -> str:
    match value:
        case list():
            return ", ".join(_plain(item) for item in value)
        case dict():
            return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items())
        case float():
            return f"{value:g}"
        case _:
            return str(value)


def _rules(node: Node, graph: Graph, notes: Sequence[Diagnostic]) -> Iterator[SiteRule]:
    """Every rule for a node of this kind, with its status: broken, waived or followed."""
    label = f"{node.kind}s.{node.name}"
    found = [n for n in notes if n.code in _STATUS and n.path == label]
    for note in found:
        params, status = note.params, _STATUS[note.code]
        rule, expected, actual = params["rule"], params["expected"], params["actual"]
        yield SiteRule(rule, status, expected, actual, params.get("reason"), params.get("until"))
    broken = {note.params["rule"] for note in found}
    if graph.rules is None:
        return
    for group in _RULES_FOR.get(node.kind, ()):
        if group == "topics" and node.topic is None:
            continue
        for rule, value in getattr(graph.rules, group).model_dump(mode="json", exclude_defaults=True).items():
            if f"{group}.{rule}" not in broken:
                yield SiteRule(f"{group}.{rule}", "kept", _plain(value), "")


def _facts(node: Node) -> Iterator[tuple[str, str]]:
    """The other fields of an element, with readable labels."""
    match node.element:
        case written.Source() as source:
            if source.freshness is not None:
                times = {"warns": source.freshness.warn_ms, "fails": source.freshness.error_ms}
                yield from ((f"Freshness {word} after", f"{ms / 1000:g} s") for word, ms in times.items() if ms)
            yield from _section("Schema", source.schema_, leave_out=("definition",))
        case written.Model() as model:
            if (changes := describe_changes(node)) is not None:
                yield "Rows", changes
            if node.topic is not None:
                yield "Partitions", str(node.topic.partitions or 1)
                yield "Copies", str(node.topic.replication_factor or 1)
                yield from ((f"Topic {key}", str(value)) for key, value in node.topic.config.items())
            if model.advanced.connector is not None:
                yield "Connector", model.advanced.connector.type
            if model.version is not None:
                yield "Version", str(model.version)
            for version, sunset in model.deprecation.items():
                yield f"Version {version} ends", " ".join(filter(None, (sunset.sunset_date, sunset.message)))
            yield from _section("Spark", model.advanced.spark)
        case written.Exposure() as exposure:
            yield "Type", exposure.type
            for word in ("role", "consumer_group", "repo", "language", "tool", "schedule"):
                if (value := getattr(exposure, word)) is not None:
                    yield word.replace("_", " ").capitalize(), value
            yield from _with_units("SLA", exposure.sla)
            yield from _section("Contract", exposure.contracts)
            yield from _with_units("Freshness", exposure.freshness)
            yield from _section("Access", exposure.access)
            for contact in exposure.contacts:
                fields = contact.model_dump(exclude_none=True)
                yield "Contact", ", ".join(str(value) for value in fields.values())
        case _:
            pass


_UNITS: Final = (("_ms", " ms"), ("_seconds", " s"), ("_minutes", " min"), ("_per_second", " per second"))
"""Endings of field names, and their units."""


def _with_units(title: str, part: Any) -> Iterator[tuple[str, str]]:
    """The service levels of an exposure, each number with its unit."""
    for key, value in ({} if part is None else part.model_dump(mode="json", exclude_defaults=True)).items():
        ending, unit = next((pair for pair in _UNITS if key.endswith(pair[0])), ("", ""))
        if key == "availability":
            unit = " %"
        elif key == "max_error_rate":
            value, unit = f"{float(value) * 100:g}", " %"
        elif key.endswith("_messages"):
            unit = " messages"
        name = key.removesuffix(ending) if ending else key
        yield f"{title} {name.replace('_', ' ')}", f"{_plain(value)}{unit}"


def _section(title: str, part: Any, leave_out: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    if part is not None:
        for key, value in part.model_dump(mode="json", by_alias=True, exclude_defaults=True).items():
            if key not in leave_out:
                yield f"{title} {key.replace('_', ' ')}", _plain(value)
