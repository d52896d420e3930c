"""Limits for templates, in steps and characters, so that the same template always ends in the same way."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Final, cast

from jinja2 import StrictUndefined, Undefined, nodes
from jinja2.filters import FILTERS as DEFAULT_FILTERS
from jinja2.sandbox import SandboxedEnvironment

from penstock.errors import did_you_mean

MAX_STEPS: Final = 100_000
MAX_LENGTH: Final = 1_000_000
_UNBOUNDED_METHODS: Final = frozenset(
    {"center", "encode", "expandtabs", "format", "format_map", "ljust", "rjust", "translate", "zfill"}
)
_KEPT_FILTERS: Final = (
    "abs", "capitalize", "count", "default", "dictsort", "first", "float", "groupby", "int", "items", "join",
    "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round",
    "select", "selectattr", "sort", "string", "sum", "title", "tojson", "trim", "unique", "upper", "wordcount",
)  # fmt: skip
_QUICK_FILTERS: Final = frozenset({"count", "default", "first", "last", "length"})
"""Filters that do not visit every item."""
_BOUNDED: Final = "bounded"
_AT_ONCE: Final = 1000
"""The number of characters or items that one step copies."""
_ITEM: Final = 10
"""The number of characters that a list item counts as."""


class TemplateRefused(Exception):
    """A template uses something that is forbidden or does not exist."""

    def __init__(
        self, code: str, message: str, hint: str | None = None, subject: str = "", line: int | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.subject, self.line = code, message, hint, subject, line


class BudgetedEnvironment(SandboxedEnvironment):
    """A sandbox without file access, with limits on steps and text length. `begin` resets the budget for a template."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(
            undefined=StrictUndefined,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            keep_trailing_newline=True,
            finalize=self._finalize_value,
        )
        own = {"tojson": self._to_json, "replace": self._replace, "join": self._join, "sum": self._sum}
        own[_BOUNDED] = self._check_size
        given: dict[str, Any] = {name: self._charge_filter(name, self.filters[name]) for name in _KEPT_FILTERS}
        self.filters = given | {name: self._charge_filter(name, made) for name, made in own.items()}
        self.tests = {name: self._charge_filter(name, test) for name, test in self.tests.items()}
        self.begin()

    def begin(self) -> None:
        self._steps_left = MAX_STEPS
        self._out = 0
        self._lengths: dict[int, tuple[Any, int]] = {}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                text = "a recursive loop is not supported"
                raise TemplateRefused("template-refused", text, "write two loops", line=loop.lineno)
            loop.iter = _environment_call("each", [loop.iter], loop)
        for block in tree.find_all(nodes.AssignBlock):
            bounded = nodes.Filter(block.filter, _BOUNDED, [], [], None, None)
            bounded.set_lineno(block.lineno)
            block.filter = bounded
        for used in tree.find_all(nodes.Filter):
            if used.name not in self.filters:
                code = "template-refused" if used.name in DEFAULT_FILTERS else "template-syntax"
                text = f"there is no filter `{used.name}` here"
                raise TemplateRefused(code, text, did_you_mean(used.name, _KEPT_FILTERS), used.name, used.lineno)
        for kind in (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends):
            for reader in tree.find_all(kind):
                text, hint = "a template cannot read other files", "call a macro of `macros/` by its name"
                raise TemplateRefused("template-refused", text, hint, line=reader.lineno)
        for node in list(tree.find_all(nodes.Node)):
            for field, value in node.iter_fields():
                if isinstance(value, nodes.Node):
                    setattr(node, field, _meter_node(value))
                elif isinstance(value, list):
                    setattr(node, field, [_meter_node(v) if isinstance(v, nodes.Node) else v for v in value])
        return tree

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._spend()
            yield item

    def concatenate(self, *parts: Any) -> str:
        self.charge_for(list(parts))
        made = "".join(map(str, parts))
        self.charge_for(made)
        return str(self._check_size(made))

    def charge_for(self, value: Any) -> Any:
        """Charge for a value that is copied or searched as a whole."""
        if isinstance(value, str | list | tuple | dict | range):
            self._spend(1 + len(value) // _AT_ONCE)
        return value

    def check_collection(self, bundle: Any) -> Any:
        """Check a collection that a template creates, with the length of everything in it."""
        inside = [*bundle.keys(), *bundle.values()] if isinstance(bundle, dict) else list(bundle)
        length = sum(self._length(item) for item in inside)
        self.check_length(length)
        self._lengths[id(bundle)] = (bundle, length)
        return bundle

    def _length(self, value: Any) -> int:
        if id(value) in self._lengths:
            return self._lengths[id(value)][1]
        return len(value) if isinstance(value, str | list | tuple | dict) else 1

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as jinja has it
        __self._spend()
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name == "replace" and len(args) > 1:
            __self.check_length(owner.count(str(args[0])) * len(str(args[1])))
        if isinstance(owner, str) and name == "join" and args:
            return __self._join(args[0], owner)
        __self.charge_for(owner)
        result = __self._check_size(super().call(__context, __obj, *args, **kwargs))
        __self._check_size(owner)  # a list may have grown
        return result

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        match operator, left, right:
            case "*", str() | list() | tuple(), int():
                self.check_length(len(left) * right)
            case "*", int(), str() | list() | tuple():
                self.check_length(len(right) * left)
            case "*", int(), int():
                self.check_length(left.bit_length() + right.bit_length())
            case "**", int(), int():
                self.check_length(left.bit_length() * right)
            case "%", str(), _:
                text = "string formatting with % is not supported"
                raise TemplateRefused("template-refused", text, "concatenate with ~")
            case _:
                pass
        result = self.charge_for(super().call_binop(context, operator, left, right))
        return self.check_collection(result) if isinstance(result, list | tuple) else self._check_size(result)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Refuse `format`, which can produce a text of any width."""
        is_method = isinstance(getattr(value, "__self__", None), str)
        if is_method and getattr(value, "__name__", "") in ("format", "format_map"):
            raise TemplateRefused("template-refused", "string formatting is not supported", "concatenate with ~")
        return None

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        endless = isinstance(obj, str) and attr in _UNBOUNDED_METHODS
        return not endless and not isinstance(obj, int | float | bytes) and super().is_safe_attribute(obj, attr, value)

    def _to_json(self, value: Any) -> str:
        self.check_length(self._length(value))
        return json.dumps(value, ensure_ascii=False)

    def _replace(self, text: Any, old: str, new: str) -> str:
        self.check_length(str(text).count(old) * len(new))
        return str(self._check_size(str(text).replace(old, new)))

    def _charge_filter(self, name: str, made: Any) -> Any:
        """Wrap a filter or test so that it costs a step per item and one per thousand characters."""

        @wraps(made)
        def charged(*args: Any, **kwargs: Any) -> Any:
            self._spend()
            return self._check_size(made(*map(given, args), **kwargs))

        def given(value: Any) -> Any:
            if isinstance(value, str) or name in self.tests:
                return self.charge_for(value)
            if isinstance(value, list | tuple | dict | range) and name not in _QUICK_FILTERS:
                self._spend(len(value))
            return self.each(value) if isinstance(value, Iterator) else value

        return charged

    def _sum(self, items: Any, attribute: str | None = None) -> Any:
        numbers = [self.getattr(item, attribute) if attribute else item for item in self.each(items)]
        return sum(number for number in numbers if isinstance(number, int | float))

    def _join(self, items: Any, by: str = "") -> str:
        parts = [str(item) for item in self.each(items)]
        self.check_length(sum(map(len, parts)) + len(by) * len(parts))
        return by.join(parts)

    def _finalize_value(self, value: Any) -> Any:
        """The value of `{{ … }}`. Refuse one without a text, such as a function."""
        if isinstance(value, Iterator):
            raise TemplateRefused("template-syntax", "this is a generator, not a list", "add `| list`, or join it")
        if callable(value) and not isinstance(value, Undefined):
            raise TemplateRefused("template-syntax", "this is a function, not a text", 'call it: `source("name")`')
        self._out += self._length(value)
        self.check_length(self._out)
        return value

    def _spend(self, steps: int = 1) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            text = f"the template takes more than {MAX_STEPS:,} steps"
            raise TemplateRefused("template-refused", text, "loop over fewer values")

    def _check_size(self, value: Any) -> Any:
        if isinstance(value, str):
            self.check_length(len(value))
        elif isinstance(value, list | tuple | dict):
            self.check_length(len(value) * _ITEM)
        return value

    def check_length(self, length: int) -> None:
        if length > MAX_LENGTH:
            text = f"the template produces more than {MAX_LENGTH:,} characters"
            raise TemplateRefused("template-refused", text, "produce a shorter text")


def _meter_node(node: nodes.Node) -> nodes.Node:
    """The node, wrapped in a call of the sandbox if it builds texts or collections."""
    match node:
        case nodes.Concat():
            return _environment_call("concatenate", node.nodes, node)
        case nodes.List() | nodes.Dict() | nodes.Tuple(ctx="load"):
            return _environment_call("check_collection", [node], node)
        case nodes.Operand() if node.op in ("in", "notin"):
            node.expr = cast(nodes.Expr, _environment_call("charge_for", [node.expr], node.expr))
            return node
        case nodes.Getitem() if isinstance(node.arg, nodes.Slice):
            node.node = cast(nodes.Expr, _environment_call("charge_for", [node.node], node))
            return node
        case _:
            return node


def _environment_call(method: str, arguments: Sequence[nodes.Node], place: nodes.Node) -> nodes.Node:
    """A call of a method of the sandbox that no name in a template can shadow."""
    function = nodes.EnvironmentAttribute(method)
    return nodes.Call(function, list(arguments), [], None, None).set_lineno(place.lineno)
