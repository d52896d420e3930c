"""Reads YAML and text files, and reports errors in them."""

import json
import re
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.errors import Diagnostic, Origin
from penstock.project.yaml.documents import TAG, Document, PathStep, TextFile

MAX_VALUES: Final = 1_000_000
MAX_DEPTH: Final = 1000
_MANY_MARKS: Final = 10_000
_TEXTS: Final = frozenset({f"{TAG}str", f"{TAG}timestamp", f"{TAG}binary"})
_scalars: Final = yaml.constructor.SafeConstructor()


def read_text_file(path: Path, shown_as: str) -> tuple[TextFile | None, list[Diagnostic]]:
    """A file as text."""
    text = _load_text(path, shown_as)
    return (None, [text]) if isinstance(text, Diagnostic) else (TextFile(shown_as, text, path.stem), [])


def read_document(path: Path, shown_as: str) -> tuple[Document | None, list[Diagnostic]]:
    """A file as a document, or None if it cannot be read."""
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
        return None, [_too_deep(shown_as)]
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
    except RecursionError:
        return None, [_too_deep(shown_as)]
    except yaml.MarkedYAMLError as error:
        if (respelled := _escape_json(text)) != text:
            return parse_yaml(respelled, shown_as)
        return None, [_syntax_error(error, shown_as, text)]
    except yaml.YAMLError as error:
        text = str(error).splitlines()[0]
        return None, [Diagnostic("yaml-syntax", text, Origin(shown_as), hint="remove the control characters")]
    finally:
        loader.dispose()
    if root is None or (isinstance(root, yaml.ScalarNode) and not root.value and root.tag == f"{TAG}null"):
        hint = "write the document, or remove the file"
        return None, [Diagnostic("file-empty", "the file is empty", Origin(shown_as), hint=hint)]
    builder = _Builder(shown_as)
    try:
        value = builder.value(root, ())
    except RecursionError:
        return None, [_too_deep(shown_as)]
    return Document(shown_as, text, root, value), builder.diagnostics


def _too_deep(shown_as: str) -> Diagnostic:
    text, hint = "the file is nested too deeply", "nest the values less deeply"
    return Diagnostic("yaml-syntax", text, Origin(shown_as), hint=hint)


def _is_too_deep(text: str) -> bool:
    """Whether the nesting would exceed the recursion limit. Most files have too few brackets to need the check."""
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
        return False  # composing reports the error
    return False


class _Builder:
    """Converts nodes to values once, and reports what YAML itself would accept silently."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.diagnostics: list[Diagnostic] = []
        self._built = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node, path: tuple[PathStep, ...]) -> Any:
        self._built += 1
        if id(node) in self._open:
            text = "an alias refers to a value that contains it"
            self._note("yaml-alias", node, path, text, "write the value instead of the alias")
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
            if key_node.tag == f"{TAG}merge":
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
            if key_node.tag == f"{TAG}bool":
                reads = "true" if _scalar(key_node) else "false"
                text = f"YAML reads the key `{key}` as {reads}"
                self._note("yaml-boolean-key", key_node, (*path, key), text, f'write "{key}" with quotes')
                continue
            if key_node.tag != f"{TAG}str":
                text = f"the key `{key}` is not text"
                self._note("yaml-key-not-text", key_node, (*path, key), text, "put it in quotes")
            if key in mapping:
                text = f"the key `{key}` is given here and in line {lines[key]}"
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
    if tag in _TEXTS or (tag == f"{TAG}int" and ":" in node.value):
        return node.value  # dates and times of day stay as they were written
    if tag.startswith(TAG):
        try:
            return _scalars.construct_object(node)
        except (yaml.YAMLError, ValueError):
            return node.value
    return node.value


def _syntax_error(error: yaml.MarkedYAMLError, file: str, text_of_file: str) -> Diagnostic:
    mark = error.problem_mark or error.context_mark
    origin = Origin(file, mark.line + 1, mark.column + 1) if mark else Origin(file)
    problem = (error.problem or "the file is not YAML").strip()
    text = f"{error.context.strip()}: {problem}" if error.context else problem
    if mark and text_of_file[mark.index : mark.index + 1] == "\t":
        text, hint = "there is a tab where YAML needs spaces", "indent with spaces, not with tabs"
    elif "Unicode character escape" in problem:
        text = "this escape is half of a surrogate pair"
        hint = r"write the character itself, or both halves: \ud83d\ude00"
    elif "found another document" in problem:
        text = "`---` begins a second document, but a file must contain one"
        hint = "put it into a file of its own, or remove `---`"
    elif "undefined alias" in problem:
        text, hint = "this alias has no anchor before it", "write `&name` before the value that `*name` refers to"
    elif error.context_mark and mark and error.context_mark.line != mark.line:
        hint = f"it began in line {error.context_mark.line + 1}: look for a missing bracket, quote or colon"
    else:
        hint = "look here and just before for a missing bracket, quote or colon"
    return Diagnostic("yaml-syntax", text, origin, hint=hint)


# JSON that YAML cannot read: surrogate pairs as escapes, and tabs as white space

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def _escape_json(text: str) -> str:
    """The text in a form that YAML can read. Surrogate pairs are joined inside double quotes only. Tabs become spaces
    outside of strings, and only if the whole text is JSON.
    """
    found = _QUOTED.sub(lambda quoted: _ESCAPE.sub(_join_surrogates, quoted[0]), text)
    return _replace_tabs(found) if "\t" in found and _is_json(found) else found


def _join_surrogates(escape: re.Match[str]) -> str:
    if escape["high"] is None:
        return escape[0]
    number = 0x10000 + ((int(escape["high"], 16) - 0xD800) << 10) + (int(escape["low"], 16) - 0xDC00)
    return f"\\U{number:08X}"


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return r"\U" in text and _is_json(text.replace(r"\U", r"\u"))
    return True


def _replace_tabs(text: str) -> str:
    parts, position = [], 0
    for quoted in _QUOTED.finditer(text):
        parts += [text[position : quoted.start()].replace("\t", " "), quoted[0]]
        position = quoted.end()
    return "".join([*parts, text[position:].replace("\t", " ")])
