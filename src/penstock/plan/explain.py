"""explain: a plan as lines for people and as JSON for programs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from penstock.manifest.model import QuerySpec
from penstock.plan import steps
from penstock.plan.steps import Plan, Step

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
        case steps.AdoptState(adoption):
            reason = f"the project ran without an environment before; resumes its {adoption.queries} queries"
            return PlanLine("~", "adopt", "state", adoption.environment, reason)
        case steps.PutSchema(schema, reason, new):
            return PlanLine("+" if new else "~", "register" if new else "change", "schema", schema.subject, reason)
        case steps.CreateTopic(topic):
            return PlanLine("+", "create", "topic", topic.name, "it does not exist yet")
        case steps.ChangeTopic(topic, _, _, reason):
            return PlanLine("~", "change", "topic", topic.name, reason)
        case steps.LeaveTopic(topic, reason):
            return PlanLine("=", "leave", "topic", topic.name, reason)
        case steps.StartQuery(query):
            return PlanLine("+", "start", "query", query.name, f"new; starts {_start_position(query)}")
        case steps.ResumeQuery(query):
            return PlanLine("=", "resume", "query", query.name, "unchanged; resumes where it stopped")
        case steps.RestartQuery(query, reason):
            return PlanLine("~", "restart", "query", query.name, f"{reason}; resumes where it stopped")
        case steps.EmptyOutput(output, location, how):
            kind = "topic" if output.sink["type"] in ("topic", "kafka") else "output"
            return PlanLine("!", "empty", kind, location, f"`{output.node.partition('.')[2]}` is written again; {how}")
        case steps.RebuildQuery(query, reason):
            reason = f"{reason}; starts over {_start_position(query)}"
            return PlanLine("!", "rebuild", "query", query.name, reason, _rebuild_risk(step))
        case steps.HoldQuery(query, damage):
            repair = f"`penstock doctor --repair` {damage.repair}, or " if damage.repair else ""
            risk = f"{repair}`--allow-rebuild {query.name}` starts over"
            return PlanLine("!", "hold", "query", query.name, f"its checkpoint is damaged: {damage}", risk)
        case steps.CarryQuery(rename):
            reason = f"it was called `{rename.old}`, and resumes from the checkpoint of that name"
            return PlanLine("~", "carry", "query", rename.new, reason)
        case steps.RetireQuery(name):
            return PlanLine("-", "retire", "query", name, "no longer in the project; its checkpoint and output stay")
        case steps.CreateConnector(connector):
            return PlanLine("+", "create", "connector", connector.name, f"Kafka Connect `{connector.cluster}` has none")
        case steps.ChangeConnector(connector, reason):
            return PlanLine("~", "change", "connector", connector.name, reason)
        case steps.RestartConnector(connector, reason):
            return PlanLine("~", "restart", "connector", connector.name, f"it has failed: {reason}")
        case steps.DeleteConnector(name, _):
            return PlanLine("-", "delete", "connector", name, "no longer in the project; what it has written stays")
        case steps.CreateVirtualTopic(rule):
            return PlanLine("+", "create", "virtual topic", rule.virtual_topic, f"a view of `{rule.physical_topic}`")
        case steps.ChangeVirtualTopic(rule, _, reason):
            return PlanLine("~", "change", "virtual topic", rule.virtual_topic, reason)
        case steps.DeleteVirtualTopic(name, _, left):
            if left:
                return PlanLine("-", "forget", "virtual topic", name, "no gateway is configured; it stays there")
            return PlanLine("-", "delete", "virtual topic", name, "no longer in the project; the topic below stays")
    assert_never(step)


def _rebuild_risk(step: steps.RebuildQuery) -> str:
    if step.truncates:
        return "its output is emptied first, and is incomplete until the query has caught up"
    if step.left:
        places = ", ".join(f"`{place}`" for place in step.left)
        return f"rows written so far stay in {places}, which nothing in this project reads"
    return "rows written so far stay in its output and are written again; its readers see them twice"


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
