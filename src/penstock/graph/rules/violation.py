"""The input of rules, and their violations."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from penstock.errors import Diagnostic, Origin
from penstock.graph.graph import LinkedTest, Node
from penstock.project import stream_project as written
from penstock.project.project import StreamProject
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.documents import PathStep


@dataclass(frozen=True)
class RuleContext:
    """A project with its nodes and tests."""

    project: StreamProject
    nodes: Mapping[str, Node]
    tests: tuple[LinkedTest, ...]

    @cached_property
    def _tests_by_node(self) -> Mapping[str, list[LinkedTest]]:
        found: dict[str, list[LinkedTest]] = {}
        for test in self.tests:
            found.setdefault(test.node, []).append(test)
        return found

    @property
    def rules(self) -> written.Rules:
        return self.project.rules.value

    def models(self) -> Iterator[tuple[Declaration[written.Model], Node]]:
        """The models that could be linked."""
        for model in self.project.models:
            if (node := self.nodes.get(f"model.{model.value.name}")) is not None:
                yield model, node

    def tests_of(self, node: Node) -> list[LinkedTest]:
        return self._tests_by_node.get(node.id, [])


@dataclass(frozen=True, slots=True)
class Violation:
    """An element breaks a rule. `at` is the field that does, if it was written."""

    rule: str
    element: Declaration[Any]
    expected: str
    actual: str
    text: str
    hint: str | None = None
    at: tuple[PathStep, ...] = ()

    @property
    def origin(self) -> Origin:
        return self.element.origin_of(*self.at) if self.at else self.element.origin

    def diagnostic(self) -> Diagnostic:
        text = f"{self.text} (rule `{self.rule}`: expected {self.expected}, got {self.actual})"
        params = {"rule": self.rule, "expected": self.expected, "actual": self.actual}
        return Diagnostic("rule-broken", text, self.origin, self.element.label, self.hint, params=params)


def missing_field(rule: str, element: Declaration[Any], field: str) -> Violation:
    """The violation for a missing field."""
    return Violation(rule, element, f"`{field}`", "nothing", f"`{field}` is missing", f"add `{field}: …`")


def missing_texts(group: str, element: Declaration[Any], rules: Any) -> Iterator[Violation]:
    """The violations for a missing description or owner."""
    for field in ("description", "owner"):
        if getattr(rules, f"require_{field}", False) and not (getattr(element.value, field) or "").strip():
            yield missing_field(f"{group}.require_{field}", element, field)


def missing_tags(
    rule: str, element: Declaration[Any], tags: Sequence[str], required: Sequence[str]
) -> Iterator[Violation]:
    """The violations for missing tags. `tier` matches `tier`, `tier-1` and `tier:1`."""
    for tag in required:
        if not any(t == tag or (t.startswith((f"{tag}-", f"{tag}:")) and t[len(tag) + 1 :].strip()) for t in tags):
            text, hint = f"the tag `{tag}` is missing", f"add `{tag}` to `tags`"
            yield Violation(rule, element, f"a tag `{tag}`", ", ".join(tags) or "none", text, hint)
