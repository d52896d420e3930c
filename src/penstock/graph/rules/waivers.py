"""Leave to break a rule."""

from collections.abc import Iterator
from datetime import date
from typing import Any

from penstock.errors import Diagnostic, Severity, did_you_mean
from penstock.graph.rules.violation import Ruled, Violation
from penstock.project import stream_project as written
from penstock.project.declared import Declared


def judged(violations: list[Violation], ruled: Ruled, today: date) -> Iterator[Diagnostic]:
    """Violations, but for those with leave; and waivers that are unknown, over, or of no use."""
    elements = _elements(ruled)
    used: set[tuple[str, int]] = set()
    for violation in violations:
        place = next((p for p, w in enumerate(violation.element.value.waivers) if w.rule == violation.rule), None)
        if place is None:
            yield violation.diagnostic()
            continue
        used.add((violation.element.label, place))
        waiver = violation.element.value.waivers[place]
        if waiver.until < today:
            yield violation.diagnostic()
        else:
            yield _waived(violation, waiver)
    for element in elements:
        for place, waiver in enumerate(element.value.waivers):
            yield from _of_no_use(element, place, waiver, (element.label, place) in used, today)


def _elements(ruled: Ruled) -> list[Declared[Any]]:
    project = ruled.project
    return [*project.sources, *project.models, *project.tests, *project.exposures]


def _waived(violation: Violation, waiver: written.Waiver) -> Diagnostic:
    text = f"{violation.text}: allowed until {waiver.until}, because: {waiver.reason}"
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
    element: Declared[Any], place: int, waiver: written.Waiver, used: bool, today: date
) -> Iterator[Diagnostic]:
    origin, path = element.origin_of("waivers", place), element.label_of("waivers", place)
    params = {"rule": waiver.rule}
    known = written.Rules.names()
    if waiver.rule not in known:
        text, hint = f"there is no rule `{waiver.rule}`", did_you_mean(waiver.rule, known)
        yield Diagnostic("unknown-value", text, origin, path, hint, params=params)
    elif waiver.until < today:
        text = f"this waiver of `{waiver.rule}` held until {waiver.until}"
        hint = "keep the rule, or give it another day" if used else "take it out"
        yield Diagnostic("waiver-expired", text, origin, path, hint, Severity.WARNING, params)
    elif not used:
        text = f"nothing here breaks the rule `{waiver.rule}`"
        yield Diagnostic("waiver-unused", text, origin, path, "take it out", Severity.WARNING, params)
