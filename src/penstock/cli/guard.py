"""Protects environments: refuses what they forbid, and asks for a confirmation."""

import sys
from typing import TypeAlias

from penstock.cli import output
from penstock.errors import Diagnostic, PlanRefused
from penstock.plan.steps import DeleteConnector, DeleteVirtualTopic, EmptyOutput, Plan, RebuildQuery, RetireQuery
from penstock.project.project import Environment

_Destructive: TypeAlias = RebuildQuery | EmptyOutput | RetireQuery | DeleteConnector | DeleteVirtualTopic


def _name(step: _Destructive) -> str:
    match step:
        case RebuildQuery(query):
            return query.name
        case EmptyOutput(_, location):
            return location
        case _:
            return step.name


def guard(environment: Environment, plan: Plan, *, confirmed: bool, forced: bool) -> None:
    """Refuse what the environment forbids, and ask for a confirmation if it is protected."""
    destructive = [step for step in plan.steps if isinstance(step, _Destructive)]
    if destructive and not environment.allow_destructive and not forced:
        names = [_name(step) for step in destructive]
        text = f"`{environment.name}` forbids this plan to rebuild, retire or delete: {', '.join(names)}"
        raise PlanRefused.from_refusals(
            [Diagnostic("destructive-refused", text, hint="add --force to override this once")]
        )
    if not environment.asks_first or confirmed or not plan.changes:
        return
    if not sys.stdin.isatty():
        text = f"`{environment.name}` is protected, and there is no terminal to ask for a confirmation"
        raise PlanRefused.from_refusals([Diagnostic("confirmation-needed", text, hint="add --confirm")])
    output.say(f"This changes the protected environment `{environment.name}`.")
    sys.stderr.write(f"Type `{environment.name}` to continue: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip() != environment.name:
        raise PlanRefused.from_refusals(
            [Diagnostic("confirmation-needed", "the name does not match; nothing was done")]
        )
