"""Who may read whom."""

from collections.abc import Iterator, Mapping

from penstock.errors import Diagnostic, Origin
from penstock.graph.exposures import REFERENCES
from penstock.graph.graph import DataTest, Node
from penstock.project import stream_project as written
from penstock.project.declared import Declared
from penstock.project.parse_project import StreamProject


def denied(project: StreamProject, nodes: Mapping[str, Node], tests: tuple[DataTest, ...]) -> Iterator[Diagnostic]:
    """Every `ref()`, `from`, exposure and test that reads a model which its `access` does not open to it."""
    for model in project.models:
        node = nodes.get(f"model.{model.value.name}")
        for node_id in node.inputs if node else ():
            yield from _judged(nodes[node_id], model, f"model `{model.value.name}`", _place(model, node_id))
    for exposure in project.exposures:
        for section in REFERENCES[:2]:
            for position, reference in enumerate(getattr(exposure.value, section)):
                if reference.id in nodes:
                    place = exposure.origin_of(section, position)
                    reader = f"exposure `{exposure.value.name}`"
                    yield from _judged(nodes[reference.id], exposure, reader, place, outside=True)
    declared = {test.value.name: test for test in project.tests}
    for test in tests:
        written_test = declared.get(test.name)
        if written_test is not None and (test.element.group or test.element.owner):
            place = written_test.origin_of("model")
            yield from _judged(nodes[test.node], written_test, f"test `{test.name}`", place)


def _place(model: Declared[written.Model], node_id: str) -> Origin:
    """Where a model names what it reads."""
    position = next((p for p, reference in enumerate(model.value.from_) if reference.id == node_id), None)
    if position is not None:
        return model.origin_of("from", position)
    name = node_id.partition(".")[2]
    offset = (model.value.sql or "").find(name)
    return model.origin_inside("sql", max(offset, 0))


def _judged(
    target: Node,
    reader: Declared[written.Model] | Declared[written.Exposure] | Declared[written.DataTest],
    called: str,
    place: Origin,
    *,
    outside: bool = False,
) -> Iterator[Diagnostic]:
    element = target.element
    if not isinstance(element, written.Model) or element.access is None or element.access.level == "public":
        return
    access = element.access
    groups = {name for name in (reader.value.group, reader.value.owner) if name}
    is_member = (element.group or element.owner) in groups
    if access.level == "private":
        allowed = is_member or (element.group is None and not outside)
        who = "only its own group in this project may read it"
    else:
        anybody = not access.allowed_groups and element.group is None
        allowed = is_member or anybody or bool(groups & set(access.allowed_groups))
        who = f"only {', '.join(access.allowed_groups) or 'its own group'} may read it"
    if allowed:
        return
    text = f"{called} may not read `{target.name}`: it is {access.level}, and {who}"
    ways = [
        f"set `group: {element.group}` on the reader" if element.group else "",
        "add the reader's group to `access.allowed_groups`" if access.level == "protected" else "",
        "let it be `access: protected` with `allowed_groups`" if access.level == "private" else "",
        "open it with `access: public`",
        "read another model",
    ]
    hint = "; or ".join(way for way in ways if way)
    params = {"model": target.name, "reader": reader.value.name}
    yield Diagnostic("access-denied", text, place, reader.label, hint, params=params)
