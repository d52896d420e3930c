"""Waivers: permissions to break a rule."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

from penstock.errors import Diagnostic, Severity, nearest
from penstock.graph.rules.violation import RuleContext, Violation
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration

WARNINGS: Final = ("state-unbounded",)
"""Warnings that can be waived."""


def apply_waivers(violations: list[Violation], ruled: RuleContext, today: date) -> Iterator[Diagnostic]:
    """Turn waived violations into notes, and report waivers that are unknown, expired or without effect."""
    project = ruled.project
    used: set[tuple[str, int]] = set()
    for violation in violations:
        fitting = [(p, w) for p, w in enumerate(violation.element.value.waivers) if w.rule == violation.rule]
        used.update((violation.element.label, place) for place, waiver in fitting if _is_over(waiver, today))
        in_force = [(place, waiver) for place, waiver in fitting if waiver.until and waiver.until >= today]
        if in_force:
            place, waiver = in_force[0]
            used.add((violation.element.label, place))
            yield _waived_diagnostic(violation, waiver)
        else:
            yield violation.diagnostic()
    elements: list[Declaration[Any]] = [*project.sources, *project.models, *project.tests, *project.exposures]
    for element in elements:
        for place, waiver in enumerate(element.value.waivers):
            if waiver.rule in WARNINGS:
                continue
            earlier = any(w.rule == waiver.rule and not _is_over(w, today) for w in element.value.waivers[:place])
            yield from _useless_waiver(element, place, waiver, (element.label, place) in used, today, earlier)


def waive_warnings(
    models: Iterable[Declaration[written.Model]], diagnostics: Sequence[Diagnostic], today: date
) -> list[Diagnostic]:
    """Turn waived warnings into notes, and report waivers without effect."""
    waived: dict[tuple[str, str], written.Waiver] = {}
    found: list[Diagnostic] = []
    for model in models:
        for place, waiver in enumerate(model.value.waivers):
            if waiver.rule not in WARNINGS:
                continue
            used = any(d.code == waiver.rule and _is_about(d, model.label) for d in diagnostics)
            earlier = (model.label, waiver.rule) in waived
            found += _useless_waiver(model, place, waiver, used and not earlier, today, earlier)
            if not _is_over(waiver, today):
                waived.setdefault((model.label, waiver.rule), waiver)
    return [*(_apply_waiver(d, waived) for d in diagnostics), *found]


def _apply_waiver(diagnostic: Diagnostic, waived: Mapping[tuple[str, str], written.Waiver]) -> Diagnostic:
    for (label, rule), waiver in waived.items():
        if diagnostic.code == rule and _is_about(diagnostic, label):
            end = f" until {waiver.until}" if waiver.until else ""
            text = f"{diagnostic.message}; this is waived{end}: {waiver.reason}"
            params = {**diagnostic.params, "rule": rule, "reason": waiver.reason}
            return Diagnostic(
                "rule-waived", text, diagnostic.origin, diagnostic.path, severity=Severity.INFO, params=params
            )
    return diagnostic


def _is_about(diagnostic: Diagnostic, label: str) -> bool:
    return diagnostic.path == label or diagnostic.path.startswith(f"{label}.")


def _is_over(waiver: written.Waiver, today: date) -> bool:
    return waiver.until is not None and waiver.until < today


def _waived_diagnostic(violation: Violation, waiver: written.Waiver) -> Diagnostic:
    text = f"{violation.text}: rule `{violation.rule}` is waived until {waiver.until}: {waiver.reason}"
    broken = violation.diagnostic()
    params = {**broken.params, "reason": waiver.reason, "until": str(waiver.until)}
    return Diagnostic("rule-waived", text, broken.origin, broken.path, severity=Severity.INFO, params=params)


def _useless_waiver(
    element: Declaration[Any], place: int, waiver: written.Waiver, used: bool, today: date, earlier: bool
) -> Iterator[Diagnostic]:
    origin, path = element.origin_of("waivers", place, "rule"), element.label_of("waivers", place)
    params = {"rule": waiver.rule}
    known = [*written.Rules.names(), *WARNINGS]
    if waiver.until is None and waiver.rule not in WARNINGS and waiver.rule in known:
        text, hint = "this field is required", "add `until: …`, the last day on which the rule may be broken"
        yield Diagnostic("missing-field", text, origin, f"{path}.until", hint, params={"field": "until"})
    elif waiver.rule not in known:
        close, text = nearest(waiver.rule, known), f"there is no rule `{waiver.rule}`"
        naming = "a rule is called by its group and its name: `models.require_owner`"
        hint = f"did you mean `{close}`?" if close else naming
        yield Diagnostic("unknown-value", text, origin, path, hint, params=params)
    elif _is_over(waiver, today):
        text = f"this waiver of `{waiver.rule}` ended on {waiver.until}"
        hint = "follow the rule, or set a later day" if used else "remove it"
        yield Diagnostic("waiver-expired", text, origin, path, hint, Severity.WARNING, params)
    elif not used:
        twice = f"the rule `{waiver.rule}` is already waived above"
        text = twice if earlier else f"nothing here breaks `{waiver.rule}`"
        yield Diagnostic("waiver-unused", text, origin, path, "remove it", Severity.WARNING, params)
