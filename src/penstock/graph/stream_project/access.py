"""Checks who may read a model."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from penstock.errors import Diagnostic, Origin
from penstock.graph.graph import LinkedTest, Node
from penstock.graph.stream_project.data_tests import assertion_inputs
from penstock.graph.stream_project.exposures import READS
from penstock.project import stream_project as written
from penstock.project.project import StreamProject
from penstock.project.templates.template import Templates
from penstock.project.validation.declaration import Declaration


def access_denials(
    project: StreamProject, nodes: Mapping[str, Node], tests: tuple[LinkedTest, ...]
) -> Iterator[Diagnostic]:
    """Report every `ref()`, `from`, exposure and test that the `access` of its model does not allow."""
    for model in project.models:
        node = nodes.get(f"model.{model.value.name}")
        for node_id in node.inputs if node else ():
            denial = _denial_reason(nodes[node_id], model, outside=False)
            if denial:
                place = _reference_origin(model, node_id, project.templates)
                yield _denial_diagnostic(nodes[node_id], model, f"model `{model.value.name}`", place, denial)
    for exposure in project.exposures:
        for section in READS:
            for position, reference in enumerate(getattr(exposure.value, section)):
                target = nodes.get(reference.id)
                if target is not None and (denial := _denial_reason(target, exposure, outside=True)):
                    place = exposure.origin_of(section, position)
                    yield _denial_diagnostic(target, exposure, f"exposure `{exposure.value.name}`", place, denial)
    declared = {test.value.name: test for test in project.tests}
    for test in tests:
        written_test = declared.get(test.name)
        if written_test is None or not (test.element.group or test.element.owner):
            continue  # a test without a group or an owner belongs to the model
        places = {test.node: written_test.origin_of("model")}
        for node_id in assertion_inputs(test.element, project.templates):
            places.setdefault(node_id, written_test.origin_of("assertions"))
        for node_id, place in places.items():
            target = nodes.get(node_id)
            if target is not None and (denial := _denial_reason(target, written_test, outside=False)):
                yield _denial_diagnostic(target, written_test, f"test `{test.name}`", place, denial)


def _reference_origin(model: Declaration[written.Model], node_id: str, templates: Templates) -> Origin:
    """The position at which a model names its input."""
    position = next((p for p, reference in enumerate(model.value.from_) if reference.id == node_id), None)
    if position is not None:
        return model.origin_of("from", position)
    rendered = templates.render(model.value.sql or "")
    offset = next((reference.offset for reference in rendered.references if reference.id == node_id), 0)
    return model.origin_inside("sql", offset)


AccessReader: TypeAlias = Declaration[written.Model] | Declaration[written.Exposure] | Declaration[written.DataTest]


def _denial_reason(target: Node, reader: AccessReader, *, outside: bool) -> str | None:
    """Who may read a model, if this reader may not; else None."""
    element = target.element
    if not isinstance(element, written.Model) or element.access is None or element.access.level == "public":
        return None
    access = element.access
    groups = {name for name in (reader.value.group, reader.value.owner) if name}
    own = element.group or element.owner
    if own in groups:
        return None
    shown = [f"its own group ({own})"] if own else []
    if access.level == "private":
        if element.group is None and not outside:
            return None
        return f"only {shown[0]} in this project may read it" if shown else "no exposure may read it"
    if (not access.allowed_groups and element.group is None) or groups & set(access.allowed_groups):
        return None
    return f"only {', '.join([*shown, *access.allowed_groups])} may read it"


def _denial_diagnostic(target: Node, reader: AccessReader, called: str, place: Origin, who: str) -> Diagnostic:
    element = target.element
    assert isinstance(element, written.Model)
    assert element.access is not None
    level = element.access.level
    hints = [
        f"set `group: {element.group}` on the reader" if element.group else "",
        "add the reader's group to `access.allowed_groups`" if level == "protected" else "",
        "set `access: protected` with `allowed_groups`" if level == "private" else "",
        "open it with `access: public`",
        "read another model",
    ]
    text = f"{called} may not read `{target.name}`: it is {level}, and {who}"
    hint = "; or ".join(filter(None, hints))
    params = {"model": target.name, "reader": reader.value.name}
    return Diagnostic("access-denied", text, place, reader.label, hint, params=params)
