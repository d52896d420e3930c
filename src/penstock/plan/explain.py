"""explain: a plan as lines for people and as JSON for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from penstock.manifest.model import QuerySpec
from penstock.plan.steps import (
    AdoptState,
    CarryQuery,
    ChangeConnector,
    ChangeTopic,
    ChangeVirtualTopic,
    CreateConnector,
    CreateTopic,
    CreateVirtualTopic,
    DeleteConnector,
    DeleteVirtualTopic,
    EmptyOutput,
    HoldQuery,
    LeaveTopic,
    Plan,
    PutSchema,
    RebuildQuery,
    RestartConnector,
    RestartQuery,
    ResumeQuery,
    RetireQuery,
    StartQuery,
    Step,
)

_BEGINNINGS: Final[Mapping[str, str | None]] = {"starting_offsets": "earliest", "start_at": None, "snapshot": "initial"}
"""Fields of sources with the start position, and their value for the earliest rows."""


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One step as text. `sign`: + new, ~ changed, ! needs consent, - removed, = unchanged."""

    sign: str
    action: str
    subject: str
    name: str
    reason: str
    risk: str = "none"

    def __str__(self) -> str:
        return f"{self.sign} {self.action} {self.subject} {self.name}: {self.reason}"


def explain(step: Step) -> PlanLine:
    match step:
        case AdoptState(adoption):
            reason = f"the project ran without an environment before; resumes its {adoption.queries} queries"
            return PlanLine("~", "adopt", "state", adoption.environment, reason)
        case PutSchema(schema, reason, new):
            return PlanLine("+" if new else "~", "register" if new else "change", "schema", schema.subject, reason)
        case CreateTopic(topic):
            return PlanLine("+", "create", "topic", topic.name, "it does not exist yet")
        case ChangeTopic(topic, _, _, reason):
            return PlanLine("~", "change", "topic", topic.name, reason)
        case LeaveTopic(topic, reason):
            return PlanLine("=", "leave", "topic", topic.name, reason)
        case StartQuery(query):
            return PlanLine("+", "start", "query", query.name, f"new; starts {_start_position(query)}")
        case ResumeQuery(query):
            return PlanLine("=", "resume", "query", query.name, "unchanged; resumes where it stopped")
        case RestartQuery(query, reason):
            return PlanLine("~", "restart", "query", query.name, f"{reason}; resumes where it stopped")
        case RebuildQuery(query, reason, _, True):
            risk = "its output is emptied first, and is incomplete until the query has caught up"
            return PlanLine(
                "!", "rebuild", "query", query.name, f"{reason}; starts over {_start_position(query)}", risk
            )
        case EmptyOutput(output, location, how):
            kind = "topic" if output.sink["type"] in ("topic", "kafka") else "output"
            return PlanLine("!", "empty", kind, location, f"`{output.node.partition('.')[2]}` is written again; {how}")
        case RebuildQuery(query, reason, left=left) if left:
            places = ", ".join(f"`{place}`" for place in left)
            risk = f"rows written so far stay in {places}, which nothing in this project reads"
            return PlanLine(
                "!", "rebuild", "query", query.name, f"{reason}; starts over {_start_position(query)}", risk
            )
        case RebuildQuery(query, reason):
            risk = "rows written so far stay in its output and are written again; its readers see them twice"
            return PlanLine(
                "!", "rebuild", "query", query.name, f"{reason}; starts over {_start_position(query)}", risk
            )
        case HoldQuery(query, damage):
            way = f"`penstock doctor --repair` {damage.repair}, " if damage.repair else ""
            risk = f"{way}or `--allow-rebuild {query.name}` starts over"
            return PlanLine(
                "!", "hold", "query", query.name, f"its checkpoint is damaged: {damage}", risk.removeprefix("or ")
            )
        case CarryQuery(rename):
            reason = f"it was called `{rename.old}`, and resumes from the checkpoint of that name"
            return PlanLine("~", "carry", "query", rename.new, reason)
        case RetireQuery(name):
            return PlanLine("-", "retire", "query", name, "no longer in the project; its checkpoint and output stay")
        case CreateConnector(connector):
            return PlanLine("+", "create", "connector", connector.name, f"Kafka Connect `{connector.cluster}` has none")
        case ChangeConnector(connector, reason):
            return PlanLine("~", "change", "connector", connector.name, reason)
        case RestartConnector(connector, reason):
            return PlanLine("~", "restart", "connector", connector.name, f"it has failed: {reason}")
        case DeleteConnector(name, _):
            return PlanLine("-", "delete", "connector", name, "no longer in the project; what it has written stays")
        case CreateVirtualTopic(rule):
            return PlanLine("+", "create", "virtual topic", rule.virtual_topic, f"a view of `{rule.physical_topic}`")
        case ChangeVirtualTopic(rule, _, reason):
            return PlanLine("~", "change", "virtual topic", rule.virtual_topic, reason)
        case DeleteVirtualTopic(name, _, left):
            if left:
                return PlanLine("-", "forget", "virtual topic", name, "no gateway is configured; it stays there")
            return PlanLine("-", "delete", "virtual topic", name, "no longer in the project; the topic below stays")
    assert_never(step)


def _start_position(query: QuerySpec) -> str:
    """The start position of a query without a checkpoint."""
    first = [entry.sources[0] for entry in query.inputs]
    said = [field for field, usual in _BEGINNINGS.items() if any(one.get(field, usual) != usual for one in first)]
    return f"where {' and '.join(f'`{field}`' for field in said)} says" if said else "from the earliest rows"


def summary(plan: Plan) -> str:
    lines = [explain(step) for step in plan.changes]
    if not lines:
        return "No changes."
    counts = {sign: sum(line.sign == sign for line in lines) for sign in "+~!-"}
    words = {"+": "to create", "~": "to change", "!": "to rebuild, empty or hold", "-": "to retire"}
    return "Plan: " + ", ".join(f"{counts[sign]} {words[sign]}" for sign in "+~!-" if counts[sign])


def to_json(plan: Plan) -> dict[str, Any]:
    return {
        "project": plan.manifest.project.name,
        "revision": plan.manifest.revision,
        "changes": len(plan.changes),
        "steps": [
            {"action": ln.action, "subject": ln.subject, "name": ln.name, "reason": ln.reason, "risk": ln.risk}
            for ln in map(explain, plan.steps)
        ],
        "refusals": [refusal.to_json() for refusal in plan.refusals],
        "offers": [offer.to_json() for offer in plan.offers],
    }
