"""YAML files as plain values that still know where each of them stands."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from penstock.errors import Diagnostic, Origin
from penstock.project.yaml.json_escapes import to_yaml

PathStep: TypeAlias = str | int
MAX_VALUES: Final = 1_000_000
MAX_DEPTH: Final = 1000
_MANY_MARKS: Final = 10_000
_TAG: Final = "tag:yaml.org,2002:"
_TEXTS: Final = frozenset({f"{_TAG}str", f"{_TAG}timestamp", f"{_TAG}binary"})
_scalars: Final = yaml.constructor.SafeConstructor()


@dataclass(frozen=True, slots=True)
class Document:
    """One file. `value` is what it says; `origin` and `inside` find the place of any part of it."""

    file: str
    text: str
    root: yaml.Node | None
    value: Any

    def origin(self, *path: PathStep, key: bool = False) -> Origin:
        """Where the value at `path` starts, or its key. A path that ends early gives its last part."""
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
        """How many steps of `path` exist in the file."""
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
        """Where a piece of the text at `path` begins; where the value begins, if it is no text that has it."""
        node = self._node(path)
        found = node.value.find(text) if isinstance(node, yaml.ScalarNode) else -1
        return self.inside(path, found) if found >= 0 else self.origin(*path)

    def inside(self, path: tuple[PathStep, ...], offset: int) -> Origin:
        """Where character `offset` of the text at `path` stands in the file.

        Folding and indentation only ever change white space, so the two texts are aligned by everything else.
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
    """A file that is no YAML: the SQL of a model, or macros. `name` is what it is called by."""

    file: str
    text: str
    name: str

    def origin(self, offset: int) -> Origin:
        before = self.text[:offset]
        return Origin(self.file, before.count("\n") + 1, offset - before.rfind("\n"))


def read_text_file(path: Path, shown_as: str) -> tuple[TextFile | None, list[Diagnostic]]:
    """A file as text."""
    text = _load_text(path, shown_as)
    return (None, [text]) if isinstance(text, Diagnostic) else (TextFile(shown_as, text, path.stem), [])


def read_document(path: Path, shown_as: str) -> tuple[Document | None, list[Diagnostic]]:
    """A file as a document; None when there is nothing to go on with."""
    text = _load_text(path, shown_as)
    return (None, [text]) if isinstance(text, Diagnostic) else parse_yaml(text, shown_as)


def _load_text(path: Path, shown_as: str) -> str | Diagnostic:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        hint = "check its permissions" if isinstance(error, OSError) else "save it as UTF-8"
        return Diagnostic("file-unreadable", f"cannot be read: {reason}", Origin(shown_as), hint=hint)


def parse_yaml(text: str, shown_as: str) -> tuple[Document | None, list[Diagnostic]]:
    if _is_too_deep(text):
        hint = "write it flatter"
        return None, [Diagnostic("yaml-syntax", "the file is nested too deeply", Origin(shown_as), hint=hint)]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
    except RecursionError:
        text = "the file is nested too deeply"
        return None, [Diagnostic("yaml-syntax", text, Origin(shown_as), hint="write it flatter")]
    except yaml.MarkedYAMLError as error:
        if (respelled := to_yaml(text)) != text:
            return parse_yaml(respelled, shown_as)
        return None, [_syntax_error(error, shown_as, text)]
    except yaml.YAMLError as error:
        text = str(error).splitlines()[0]
        return None, [Diagnostic("yaml-syntax", text, Origin(shown_as), hint="remove what is not plain text")]
    finally:
        loader.dispose()
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value and root.tag == f"{_TAG}null"):
        hint = "write the document, or remove the file"
        return None, [Diagnostic("file-empty", "the file has no content", Origin(shown_as), hint=hint)]
    builder = _Builder(shown_as)
    try:
        value = builder.value(root, ())
    except RecursionError:
        hint = "write it flatter"
        return None, [Diagnostic("yaml-syntax", "the file is nested too deeply", Origin(shown_as), hint=hint)]
    return Document(shown_as, text, root, value), builder.diagnostics


def _is_too_deep(text: str) -> bool:
    """Whether composing the file would end the process. Most files have too few marks to be looked at."""
    if sum(text.count(mark) for mark in ("[", "{", "- ", "? ")) < _MANY_MARKS:
        return False
    depth = 0
    try:
        for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                return True
    except yaml.YAMLError:
        return False  # composing says what is wrong
    return False


class _Builder:
    """Turns nodes into values once, and notes what YAML itself would pass over in silence."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.diagnostics: list[Diagnostic] = []
        self._built = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: tuple[PathStep, ...]) -> Any:
        self._built += 1
        if id(node) in self._open:
            self._note("yaml-alias", node, path, "an alias refers to what it is part of", "write the value out")
            return None
        if self._built > MAX_VALUES:
            if self._built == MAX_VALUES + 1:
                text = f"the aliases of this file expand to more than {MAX_VALUES:,} values"
                self._note("yaml-alias", node, path, text, "write fewer aliases of aliases")
            return None
        match node:
            case yaml.ScalarNode():
                return _scalar(node)
            case yaml.SequenceNode():
                self._open.add(id(node))
                items = [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
                self._open.discard(id(node))
                return items
            case yaml.MappingNode():
                self._open.add(id(node))
                mapping = self._mapping(node, path)
                self._open.discard(id(node))
                return mapping
        raise AssertionError(f"YAML has no node of type {type(node).__name__}")

    def _mapping(self, node: yaml.MappingNode, path: tuple[PathStep, ...]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == f"{_TAG}merge":
                base = self.value(value_node, path)
                for part in base if isinstance(base, list) else [base]:
                    if isinstance(part, dict):
                        merged.update({k: v for k, v in part.items() if k not in merged})
                    else:
                        text, hint = "`<<` takes a mapping, or a list of mappings", "name one: <<: *anchor"
                        self._note("wrong-shape", value_node, path, text, hint)
                continue
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None:
                self._note("yaml-key-not-text", key_node, path, "a key must be text, not a list or a mapping")
                continue
            if key_node.tag == f"{_TAG}bool":
                reads = "true" if _scalar(key_node) else "false"
                text = f"YAML reads the key `{key}` as {reads}"
                self._note("yaml-boolean-key", key_node, (*path, key), text, f'write "{key}" with quotes')
                continue
            if key_node.tag != f"{_TAG}str":
                self._note(
                    "yaml-key-not-text",
                    key_node,
                    (*path, key),
                    f"the key `{key}` is not text",
                    "put it in quotes",
                )
            if key in mapping:
                text = f"the key `{key}` stands here and in line {lines[key]}"
                self._note("yaml-duplicate-key", key_node, (*path, key), text, "keep one of the two")
                continue
            lines[key] = key_node.start_mark.line + 1
            mapping[key] = self.value(value_node, (*path, key))
        return {**merged, **mapping} if merged else mapping

    def _note(self, code: str, node: yaml.Node, path: tuple[PathStep, ...], text: str, hint: str | None = None) -> None:
        origin = Origin(self.file, node.start_mark.line + 1, node.start_mark.column + 1)
        shown = ".".join(str(step) for step in path)
        subject = {"key": str(path[-1])} if path else {}
        self.diagnostics.append(Diagnostic(code, text, origin, shown, hint, params=subject))


def _scalar(node: yaml.ScalarNode) -> Any:
    tag = node.tag
    if tag in _TEXTS or (tag == f"{_TAG}int" and ":" in node.value):
        return node.value  # dates and times of day stay as they were written
    if tag.startswith(_TAG):
        try:
            return _scalars.construct_object(node)
        except (yaml.YAMLError, ValueError):
            return node.value
    return node.value


_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "a": "\a", "e": "\x1b", "f": "\f", "v": "\v"}
_ESCAPES_BY_CODE: Final = {"x": 2, "u": 4, "U": 8}


def _characters(text: str, node: yaml.ScalarNode) -> Iterator[tuple[int, str]]:
    """The characters of a scalar as it is written, each with its place, escapes undone."""
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
        if key.tag == f"{_TAG}merge" and isinstance(value, yaml.MappingNode):
            yield from value.value


def _syntax_error(error: yaml.MarkedYAMLError, file: str, text_of_file: str) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    origin = Origin(file, mark.line + 1, mark.column + 1) if mark else Origin(file)
    problem = (error.problem or "the file is not YAML").strip()
    text = f"{error.context.strip()}: {problem}" if error.context else problem
    if mark and text_of_file[mark.index : mark.index + 1] == "\t":
        text, hint = "a tab stands where YAML needs spaces", "indent with spaces, not with tabs"
    elif "Unicode character escape" in problem:
        text = "this escape is half a character"
        hint = r"write the character itself, or both halves: \ud83d\ude00"
    elif "found another document" in problem:
        text = "`---` begins a second document, and a file is one"
        hint = "put it into a file of its own, or take out `---`"
    elif "undefined alias" in problem:
        text, hint = "this alias has no anchor before it", "write `&name` before the value that `*name` stands for"
    elif error.context_mark and mark and error.context_mark.line != mark.line:
        hint = f"it began in line {error.context_mark.line + 1}: look for a missing bracket, quote or colon"
    else:
        hint = "look here and just before for a missing bracket, quote or colon"
    return Diagnostic("yaml-syntax", text, origin, hint=hint)
