"""Rules for sensitive columns."""

import re
from collections.abc import Iterator

from penstock.graph.graph import Node
from penstock.graph.model.masks import LEVELS, is_sensitive
from penstock.graph.rules.violation import RuleContext, Violation, missing_field
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration


def security_rules(ruled: RuleContext) -> Iterator[Violation]:
    rules = ruled.rules.security
    for source in ruled.project.sources:
        yield from _declared_columns(ruled, source, ruled.nodes[f"source.{source.value.name}"])
    for model, node in ruled.models():
        yield from _declared_columns(ruled, model, node)
        yield from _unmasked_columns(ruled, model, node)
        if rules.require_access_level and model.value.access is None:
            yield missing_field("security.require_access_level", model, "access")


def _declared_columns(
    ruled: RuleContext, element: Declaration[written.Source] | Declaration[written.Model], node: Node
) -> Iterator[Violation]:
    """The declared columns, and known ones whose name matches a pattern for personal data."""
    rules = ruled.rules.security
    for position, column in enumerate(element.value.columns):
        level = node.classification.get(column.name.casefold())
        if rules.require_classification and level is None:
            text = f"the column `{column.name}` is not classified"
            rule, expected = "security.require_classification", ", ".join(rules.allowed_classifications or LEVELS)
            hint, field = "add `classification: …`", ("columns", position, "name")
            yield Violation(rule, element, expected, "nothing", text, hint, field)
    for name, level in node.classification.items():
        if rules.allowed_classifications and level not in rules.allowed_classifications:
            text = f"the column `{name}` is classified as `{level}`"
            expected = ", ".join(rules.allowed_classifications)
            yield Violation("security.allowed_classifications", element, expected, level, text)
    declared = {c.name.casefold(): p for p, c in enumerate(element.value.columns)}
    for shown in node.columns or element.value.columns:
        level = node.classification.get(shown.name.casefold())
        pattern = next((p for p in rules.pii_column_patterns if re.search(p, shown.name, re.IGNORECASE)), None)
        covered = shown.name.casefold() in node.covered
        if pattern and not covered and not is_sensitive(level):
            place = declared.get(shown.name.casefold())
            at = () if place is None else ("columns", place, "name")
            text = f"the column `{shown.name}` looks like personal data (`{pattern}`)"
            actual, hint = level or "nothing", "add `classification: sensitive`"
            hint += ", or mask it" if node.kind == "model" else ""
            yield Violation("security.pii_column_patterns", element, "sensitive or more", actual, text, hint, at)


def _unmasked_columns(ruled: RuleContext, model: Declaration[written.Model], node: Node) -> Iterator[Violation]:
    """Report sensitive columns that leave the model without a mask, under any name."""
    rules = ruled.rules.security
    masks = {mask.column.casefold(): mask for mask in node.masks}
    for name, level in node.classification.items():
        open_ = name not in node.covered
        if rules.sensitive_columns_require_masking and open_ and is_sensitive(level):
            text = f"the column `{name}` is {level.replace('_', ' ')}{_origin_text(node, name)}, and not masked"
            hint = f"add `security: {{masking: [{{column: {name}, policy: hash}}]}}`, or leave it out"
            rule = "security.sensitive_columns_require_masking"
            yield Violation(rule, model, "a mask", "none", text, hint)
        strong = (mask := masks.get(name)) is not None and (
            mask.policy in ("tokenize", "redact", "null")
            or (mask.policy == "hash" and mask.algorithm == "sha256" and mask.salt is not None)
        )
        if rules.highly_sensitive_columns_require_encryption and level == "highly_sensitive" and not strong:
            if mask is None and not open_:
                continue  # it came covered
            text = f"the column `{name}` is highly sensitive{_origin_text(node, name)}, and not strongly masked"
            hint = "use `tokenize`, `redact`, `null`, or `hash` with sha256 and a salt"
            rule = "security.highly_sensitive_columns_require_encryption"
            yield Violation(rule, model, "a strong mask", mask.policy if mask else "none", text, hint)


def _origin_text(node: Node, name: str) -> str:
    """Where an output of another name comes from."""
    origins = next((found for output, found in node.column_origins.items() if output.casefold() == name), ())
    others = [f"`{o.input.partition('.')[2]}.{o.name}`" for o in origins if o.way != "counted" and o.name != name]
    return f" (it comes from {', '.join(others)})" if others else ""
