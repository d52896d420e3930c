"""Rules for sources."""

from collections.abc import Iterator

from penstock.graph.rules.violation import RuleContext, Violation, missing_field, missing_tags, missing_texts
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration

_WORDS = {"warn": "warning", "error": "error"}


def _freshness_steps(source: Declaration[written.Source], word: str) -> tuple[str, ...]:
    """The path of the freshness field, in the form that was written."""
    fields = {"warn": ("warn_after", "warn_after_seconds"), "error": ("error_after", "max_lag_seconds")}[word]
    return tuple(field for field in fields if source.has_field("freshness", field))


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
                    text, origin = (
                        f"the source may be silent for too long before the {_WORDS[word]}",
                        source.origin_of("freshness", *_freshness_steps(source, word)),
                    )
                    expected, actual = f"<= {most / 1000:g} s", f"{given / 1000:g} s"
                    yield Violation(f"sources.max_freshness_{word}", source, origin, expected, actual, text)
        yield from missing_tags("sources.required_tags", source, value.tags, rules.required_tags)
