"""Rules for exposures."""

from collections.abc import Iterator

from penstock.graph.rules.violation import RuleContext, Violation, missing_field, missing_tags, missing_texts


def exposure_rules(ruled: RuleContext) -> Iterator[Violation]:
    rules = ruled.rules.exposures
    for exposure in ruled.project.exposures:
        value = exposure.value
        yield from missing_texts("exposures", exposure, rules)
        if rules.require_sla and value.sla is None:
            yield missing_field("exposures.require_sla", exposure, "sla")
        if rules.require_contacts and not value.contacts:
            yield missing_field("exposures.require_contacts", exposure, "contacts")
        sla = value.sla
        slowest, lowest = rules.max_latency_p99_ms, rules.min_availability
        if sla and slowest is not None and sla.latency_p99_ms is not None and sla.latency_p99_ms > slowest:
            text, actual = "the promised latency is too high", f"{sla.latency_p99_ms:g} ms"
            at = ("sla", "latency_p99_ms")
            yield Violation("exposures.max_latency_p99_ms", exposure, f"<= {slowest:g} ms", actual, text, at=at)
        if sla and lowest is not None and sla.availability is not None and sla.availability < lowest:
            text, actual = "the promised availability is too low", f"{sla.availability:g} %"
            at = ("sla", "availability")
            yield Violation("exposures.min_availability", exposure, f">= {lowest:g} %", actual, text, at=at)
        yield from missing_tags("exposures.required_tags", exposure, value.tags, rules.required_tags)
