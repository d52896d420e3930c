"""Leave to break a rule."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from penstock.errors import Diagnostic, Severity, nearest
from penstock.graph.rules.violation import Ruled, Violation
from penstock.project import stream_project as written
from penstock.project.declared import Declared


def judged(violations: list[Violation], ruled: Ruled, today: date) -> Iterator[Diagnostic]:
    """Violations, but for those with leave; and waivers that are unknown, over, or of no use."""
    elements = _elements(ruled)
    used: set[tuple[str, int]] = set()
    for violation in violations:
        fitting = [(p, w) for p, w in enumerate(violation.element.value.waivers) if w.rule == violation.rule]
        used.update((violation.element.label, place) for place, waiver in fitting if waiver.until < today)
        in_force = [(place, waiver) for place, waiver in fitting if waiver.until >= today]
        if in_force:
            place, waiver = in_force[0]
            used.add((violation.element.label, place))
            yield _waived(violation, waiver)
        else:
            yield violation.diagnostic()
    for element in elements:
        for place, waiver in enumerate(element.value.waivers):
            earlier = any(w.rule == waiver.rule and w.until >= today for w in element.value.waivers[:place])
            yield from _of_no_use(element, place, waiver, (element.label, place) in used, today, earlier)


def _elements(ruled: Ruled) -> list[Declared[Any]]:
    project = ruled.project
    return [*project.sources, *project.models, *project.tests, *project.exposures]


def _waived(violation: Violation, waiver: written.Waiver) -> Diagnostic:
    text = f"{violation.text}: rule `{violation.rule}` is waived until {waiver.until}: {waiver.reason}"
    params = {
        "rule": violation.rule,
        "expected": violation.expected,
        "actual": violation.actual,
        "reason": waiver.reason,
        "until": str(waiver.until),
    }
    label = violation.element.label
    return Diagnostic("rule-waived", text, violation.origin, label, severity=Severity.INFO, params=params)


def _of_no_use(
    element: Declared[Any], place: int, waiver: written.Waiver, used: bool, today: date, earlier: bool
) -> Iterator[Diagnostic]:
    origin, path = element.origin_of("waivers", place, "rule"), element.label_of("waivers", place)
    params = {"rule": waiver.rule}
    known = written.Rules.names()
    if waiver.rule not in known:
        close = nearest(waiver.rule, known)
        text = f"there is no rule `{waiver.rule}`"
        hint = (
            f"did you mean `{close}`?"
            if close
            else "a rule is called by its group and its name: `models.require_owner`"
        )
        yield Diagnostic("unknown-value", text, origin, path, hint, params=params)
    elif waiver.until < today:
        text = f"this waiver of `{waiver.rule}` held until {waiver.until}"
        hint = "keep the rule, or give it another day" if used else "take it out"
        yield Diagnostic("waiver-expired", text, origin, path, hint, Severity.WARNING, params)
    elif not used:
        text = (
            f"the rule `{waiver.rule}` is waived above already" if earlier else f"nothing here breaks `{waiver.rule}`"
        )
        yield Diagnostic("waiver-unused", text, origin, path, "take it out", Severity.WARNING, params)
