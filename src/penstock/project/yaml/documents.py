"""YAML files as plain values, with the position of each value."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

from penstock.errors import Origin

PathStep: TypeAlias = str | int
TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Document:
    """One file. `value` is its content; `origin` and `inside` find the position of any part."""

    file: str
    text: str
    root: yaml.Node | None
    value: Any

    def origin(self, *path: PathStep, key: bool = False) -> Origin:
        """The position of the value at `path`, or of its key. A path that does not exist gives its last existing
        part."""
        node, at = self.root, self.root
        for step in path:
            pair = _child(node, step)
            if pair is None:
                break
            at, node = pair
        chosen = at if key else node
        if chosen is None:
            return Origin(self.file)
        return Origin(self.file, chosen.start_mark.line + 1, chosen.start_mark.column + 1)

    def depth(self, *path: PathStep) -> int:
        """The number of steps of `path` that exist in the file."""
        node = self.root
        for count, step in enumerate(path):
            pair = _child(node, step)
            if pair is None:
                return count
            node = pair[1]
        return len(path)

    def source_text(self, *path: PathStep) -> str | None:
        """The scalar at `path` as it is written: `NO`, where YAML reads false. None for anything else."""
        node = self._node(path)
        return str(node.value) if isinstance(node, yaml.ScalarNode) else None

    def is_mapping(self, *path: PathStep) -> bool:
        return isinstance(self._node(path), yaml.MappingNode)

    def _node(self, path: tuple[PathStep, ...]) -> yaml.Node | None:
        node = self.root
        for step in path:
            pair = _child(node, step)
            node = pair[1] if pair else None
        return node

    def origin_of_text(self, path: tuple[PathStep, ...], text: str) -> Origin:
        """The position of a piece of the text at `path`; of the value, if it does not contain the piece."""
        node = self._node(path)
        found = node.value.find(text) if isinstance(node, yaml.ScalarNode) else -1
        return self.inside(path, found) if found >= 0 else self.origin(*path)

    def inside(self, path: tuple[PathStep, ...], offset: int) -> Origin:
        """The position in the file of character `offset` of the text at `path`. Folding and indentation change only
        white space, so the two texts are aligned by all other characters.
        """
        node = self._node(path)
        if not isinstance(node, yaml.ScalarNode):
            return self.origin(*path)
        ahead = sum(not c.isspace() for c in node.value[:offset])
        places = [place for place, character in _characters(self.text, node) if not character.isspace()]
        place = places[min(ahead, len(places) - 1)] if places else node.start_mark.index
        line_start = self.text.rfind("\n", 0, place) + 1
        return Origin(self.file, self.text.count("\n", 0, place) + 1, place - line_start + 1)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file that is not YAML: the SQL of a model, or macros. `name` is the name of the model."""

    file: str
    text: str
    name: str

    def origin(self, offset: int) -> Origin:
        before = self.text[:offset]
        return Origin(self.file, before.count("\n") + 1, offset - before.rfind("\n"))


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "a": "\a", "e": "\x1b", "f": "\f", "v": "\v"}
_ESCAPES_BY_CODE: Final = {"x": 2, "u": 4, "U": 8}


def _characters(text: str, node: yaml.ScalarNode) -> Iterator[tuple[int, str]]:
    """The characters of a scalar with their positions, escapes resolved."""
    place, end = node.start_mark.index, node.end_mark.index
    if node.style in ("|", ">"):
        place = text.find("\n", place) + 1
    elif node.style in ("'", '"'):
        place, end = place + 1, end - 1
    while place < end:
        character, length = text[place], 1
        if node.style == "'" and text.startswith("''", place):
            length = 2
        elif node.style == '"' and character == "\\":
            code = text[place + 1]
            length = 2 + _ESCAPES_BY_CODE.get(code, 0)
            character = " " if code == "\n" else _ESCAPES.get(code, "x" if code in _ESCAPES_BY_CODE else code)
        yield place, character
        place += length


def _child(node: yaml.Node | None, step: PathStep) -> tuple[yaml.Node, yaml.Node] | None:
    """The key node and value node one step down."""
    if isinstance(node, yaml.MappingNode):
        for key, value in _pairs(node):
            if isinstance(key, yaml.ScalarNode) and key.value == str(step):
                return key, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def _pairs(node: yaml.MappingNode) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    yield from node.value
    for key, value in node.value:
        if key.tag == f"{TAG}merge" and isinstance(value, yaml.MappingNode):
            yield from value.value
