"""Virtual topics of a gateway: their definition, and what a gateway does not support."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.errors import Diagnostic, Severity
from penstock.graph.analysis import to_diagnostics
from penstock.graph.graph import Node
from penstock.graph.model.changelog_mode import node_flow
from penstock.graph.model.rendered import RenderedModel
from penstock.graph.model.topics import invalid_name
from penstock.project import stream_project as written
from penstock.project.project import StreamProject
from penstock.project.validation.declaration import Declaration
from penstock.sql.gateway.selection import EVERYTHING, GatewayInput, Selection
from penstock.sql.gateway.translate import WAY_OUT, gateway_selection
from penstock.sql.parse.query import Problem
from penstock.sql.types.columns import Columns


@dataclass(frozen=True, slots=True)
class VirtualTopicPlan:
    """The underlying topic, the selection of its records, and the masked outputs. `with_schema` says whether the
    records need a schema of the registry.
    """

    physical: Node
    selection: Selection
    masked: tuple[str, ...]
    with_schema: bool
    problems: tuple[Problem, ...] = ()


def virtual_topic(node: Node, nodes: Mapping[str, Node]) -> VirtualTopicPlan | None:
    """The definition of a virtual topic. One that reads another one uses the same underlying topic, because a gateway
    cannot chain them."""
    if len(node.inputs) != 1 or node.inputs[0] not in nodes:
        return None
    below = nodes[node.inputs[0]]
    lower = virtual_topic(below, nodes) if below.materialized == "virtual_topic" else None
    physical, taken, masked = below, EVERYTHING, frozenset[str]()
    if lower is not None:
        physical, taken, masked = lower.physical, lower.selection, frozenset(name.casefold() for name in lower.masked)
    read = GatewayInput(_stored_columns(below), masked, taken)
    chosen, problems = (taken, ()) if node.query is None else gateway_selection(node.query, read)
    names = {mask.column.casefold(): mask.column for mask in node.masks}
    if chosen.outputs is not taken.outputs:
        names = {o.name.casefold(): o.name for o in chosen.outputs or () if o.of in masked} | names
    elif lower is not None:
        names = {name.casefold(): name for name in lower.masked} | names
    with_schema = _has_schema(physical)
    if with_schema and chosen.outputs is not taken.outputs:
        text = "a gateway cannot choose among the fields of Avro or Protobuf records: they would not fit their schema"
        problems = (*problems, Problem("gateway-unsupported", text, 0, WAY_OUT, subject="projection"))
    return VirtualTopicPlan(physical, chosen, tuple(names.values()), with_schema, problems)


def _stored_columns(node: Node) -> Columns | None:
    """The columns of the records, without processing-time columns."""
    clocks = node_flow(node).clocks
    return node.columns and tuple(c for c in node.columns if c.name.casefold() not in clocks)


def _has_schema(node: Node) -> bool:
    schema = node.element.schema_ if isinstance(node.element, written.Source) else None
    return schema is not None and schema.format != "json"


def gateway_limits(
    read: RenderedModel, node: Node, nodes: Mapping[str, Node], columns: Columns | None
) -> Iterator[Diagnostic]:
    """Report what a gateway cannot do for this model. `columns` are those before its masks."""
    declared = read.declared
    found = virtual_topic(node, nodes)
    if (text := _unreadable_reason(node, nodes)) is not None:
        yield declared.diagnostic("gateway-unsupported", text, WAY_OUT)
    if found is not None and read.sql is not None:
        asked_for = declared.value.materialized or (declared.value.gateway and declared.value.gateway.virtual_topic)
        problems = [p if asked_for else replace(p, hint=f"{p.hint}; {_INFERRED}") for p in found.problems]
        yield from to_diagnostics(problems, declared.label, read.origin_at)
    for mask in node.masks:
        kind = next((c.type for c in columns or () if c.name.casefold() == mask.column.casefold()), None)
        at, column = ("security",), mask.column
        if mask.policy != "redact":
            text = f"the gateway cannot mask `{column}` by `{mask.policy}`: it can only redact"
            hint = f"write `policy: redact`, or {WAY_OUT.removeprefix('write ')}"
            yield declared.diagnostic("gateway-unsupported", text, hint, at=at, subject=column)
        elif kind not in (None, "STRING"):
            text = f"the gateway masks only texts, and `{column}` is {kind}"
            yield declared.diagnostic("gateway-unsupported", text, WAY_OUT, at=at, subject=column)
    yield from invalid_name(declared, declared.value.virtual_topic, _naming_field(declared))
    yield from _ineffective_fields(declared)


_INFERRED: Final = "with a gateway, a model without state is a virtual topic by default"


def _unreadable_reason(node: Node, nodes: Mapping[str, Node]) -> str | None:
    """Why a gateway cannot read the records."""
    if len(node.inputs) != 1:
        return f"a virtual topic reads one topic, and this one {'several' if node.inputs else 'none'}"
    below = nodes.get(node.inputs[0])
    if below is None:
        return None
    if isinstance(below.element, written.Source) and below.element.table is not None:
        return f"`{below.name}` is a table, and a gateway reads topics"
    if node_flow(below).kind != "rows":
        return f"the rows of `{below.name}` are changes, and a gateway would pass on some and not others"
    return None


def _ineffective_fields(declared: Declaration[written.Model]) -> Iterator[Diagnostic]:
    virtual = declared.value.gateway.virtual_topic if declared.value.gateway else None
    if virtual is not None and virtual.compression is not None:
        text = "this has no effect: records are stored in the topic below, and compressed as they are there"
        at = ("gateway", "virtual_topic", "compression")
        yield declared.diagnostic("no-effect", text, at=at, severity=Severity.INFO)


def virtual_clashes(project: StreamProject, nodes: Mapping[str, Node]) -> Iterator[Diagnostic]:
    """Report virtual topics that would hide another topic."""
    taken = {source.value.topic: source.label for source in project.sources}
    topics = {m.label: node.topic for m in project.models if (node := nodes.get(f"model.{m.value.name}"))}
    taken |= {topic.name: label for label, topic in topics.items() if topic is not None}
    for model in project.models:
        node = nodes.get(f"model.{model.value.name}")
        if node is None or node.materialized != "virtual_topic":
            continue
        name, field = model.value.virtual_topic, _naming_field(model)
        if (first := taken.setdefault(name, model.label)) != model.label:
            text = f"the topic `{name}` is already the topic of {first}"
            hint = "give it another name with `gateway: {virtual_topic: …}`"
            yield model.diagnostic("duplicate-name", text, hint, at=field, name=name)


def _naming_field(declared: Declaration[written.Model]) -> tuple[str, ...]:
    virtual = declared.value.gateway.virtual_topic if declared.value.gateway else None
    return ("name",) if virtual is None or virtual.name is None else ("gateway", "virtual_topic")
