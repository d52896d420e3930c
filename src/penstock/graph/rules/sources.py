"""Rules for sources."""

from collections.abc import Iterator
from typing import Final

from penstock.graph.rules.violation import RuleContext, Violation, missing_field, missing_tags, missing_texts

_FIELDS: Final = {"warn": ("warn_after", "warn_after_seconds"), "error": ("error_after", "max_lag_seconds")}
"""The fields that set a limit of freshness; one of them is written."""


def source_rules(ruled: RuleContext) -> Iterator[Violation]:
    rules = ruled.rules.sources
    for source in ruled.project.sources:
        value = source.value
        yield from missing_texts("sources", source, rules)
        if rules.require_schema and value.schema_ is None:
            yield missing_field("sources.require_schema", source, "schema")
        if rules.require_columns and not (value.columns or ruled.nodes[f"source.{value.name}"].columns):
            yield missing_field("sources.require_columns", source, "columns")
        if rules.require_freshness and value.freshness is None:
            yield missing_field("sources.require_freshness", source, "freshness")
        if value.freshness is not None:
            limits = (
                ("warn", value.freshness.warn_ms, rules.max_freshness_warn),
                ("error", value.freshness.error_ms, rules.max_freshness_error),
            )
            for word, given, most in limits:
                if given is not None and most is not None and given > most:
                    text = f"the source may be silent for too long before the {'warning' if word == 'warn' else word}"
                    expected, actual = f"<= {most / 1000:g} s", f"{given / 1000:g} s"
                    field = next(field for field in _FIELDS[word] if source.has_field("freshness", field))
                    at = ("freshness", field)
                    yield Violation(f"sources.max_freshness_{word}", source, expected, actual, text, at=at)
        yield from missing_tags("sources.required_tags", source, value.tags, rules.required_tags)
