"""Jinja in SQL, in a sandbox: no files, no endless loops, no text without bounds.

What a template can spend is counted, not timed, so that the same template always ends the same way.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import CodeType, TracebackType
from typing import Any, Final, NoReturn

from jinja2 import StrictUndefined, Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as DEFAULT_FILTERS
from jinja2.sandbox import SandboxedEnvironment

from penstock.errors import Diagnostic, did_you_mean, nearest
from penstock.project.documents import TextFile
from penstock.project.marking import pieces_of, prepared
from penstock.project.template import Piece, Reference, Rendered, TemplateProblem, secret_problem, unset_problem
from penstock.project.variables import Environ, is_secret
from penstock.sql.dialects import quoted

MAX_STEPS: Final = 100_000
MAX_LENGTH: Final = 1_000_000
_MODEL: Final = "<model>"
_MACROS: Final = "<macros>"
_UNBOUNDED_METHODS: Final = frozenset(
    {"center", "encode", "expandtabs", "format", "format_map", "ljust", "rjust", "translate", "zfill"}
)
_KEPT_FILTERS: Final = (
    "abs", "capitalize", "count", "default", "dictsort", "first", "float", "groupby", "int", "items", "join",
    "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace", "reverse", "round",
    "select", "selectattr", "sort", "string", "sum", "title", "tojson", "trim", "unique", "upper", "wordcount",
)  # fmt: skip
_BOUNDED: Final = "bounded"
_ITEM: Final = 10
"""How many characters an item of a list counts for."""
_UNDEFINED: Final = re.compile(r"'(\w+)' is undefined")


class Refused(Exception):
    """A template asks for what it must not have, or for what there is not."""

    def __init__(
        self, code: str, message: str, hint: str | None = None, subject: str = "", line: int | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.subject, self.line = code, message, hint, subject, line


class Sandbox(SandboxedEnvironment):
    """Renders the templates of one project. Loops, calls and texts draw on a budget that each template gets anew."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(
        self, macros: tuple[TextFile, ...], variables: Mapping[str, Any], environ: Environ, environment: str | None
    ) -> None:
        super().__init__(
            undefined=StrictUndefined,
            extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"],
            keep_trailing_newline=True,
            finalize=self._shown,
        )
        own = {
            "tojson": self._to_json,
            "replace": self._replace,
            "join": self._join,
            "sum": self._sum,
            _BOUNDED: self._bounded,
        }
        given_filters: dict[str, Any] = {name: self._paid(self.filters[name]) for name in _KEPT_FILTERS}
        self.filters = given_filters | {name: self._paid(made) for name, made in own.items()}
        self._variables, self._environ = variables, environ
        self._left = MAX_STEPS
        self._out = 0
        self._lengths: dict[int, tuple[Any, int]] = {}
        self._called: list[tuple[str, str]] = []
        given = {name: self.globals[name] for name in ("range", "dict", "namespace")}
        self.globals = {
            **given,
            "source": lambda *names: self._refer("source", names),
            "ref": lambda *names: self._refer("model", names),
            "var": self._var,
            "env_var": self._env_var,
            "env": self._env_var,
            "config": lambda **_: "",
            "target": {"name": environment or "default"},
        }
        self.mistakes: list[Diagnostic] = []
        self._take_macros(macros)

    # What a template may spend

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                raise Refused("template-refused", "a loop cannot call itself", "write two loops", line=loop.lineno)
            loop.iter = _call_of("each", [loop.iter], loop)
        for block in tree.find_all(nodes.AssignBlock):
            bounded = nodes.Filter(block.filter, _BOUNDED, [], [], None, None)
            bounded.set_lineno(block.lineno)
            block.filter = bounded
        for used in tree.find_all(nodes.Filter):
            if used.name not in self.filters:
                code = "template-refused" if used.name in DEFAULT_FILTERS else "template-syntax"
                text = f"there is no filter `{used.name}` here"
                raise Refused(code, text, did_you_mean(used.name, _KEPT_FILTERS), used.name, used.lineno)
        for kind in (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends):
            for reader in tree.find_all(kind):
                text, hint = "other files cannot be read from a template", "macros of `macros/` are there by name"
                raise Refused("template-refused", text, hint, line=reader.lineno)
        for node in list(tree.find_all(nodes.Node)):
            for field, value in node.iter_fields():
                if isinstance(value, nodes.Node):
                    setattr(node, field, _counted(value))
                elif isinstance(value, list):
                    setattr(node, field, [_counted(v) if isinstance(v, nodes.Node) else v for v in value])
        return tree

    def each(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._spend()
            yield item

    def joined(self, *parts: Any) -> str:
        return str(self._bounded("".join(map(str, parts))))

    def bundled(self, bundle: Any) -> Any:
        """A list, a tuple or a mapping that a template makes, with the length of everything in it."""
        inside = [*bundle.keys(), *bundle.values()] if isinstance(bundle, dict) else list(bundle)
        length = sum(self._length(item) for item in inside)
        self._bound(length)
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
            __self._bound(owner.count(str(args[0])) * len(str(args[1])))
        if isinstance(owner, str) and name == "join" and args:
            return __self._join(args[0], owner)
        result = __self._bounded(super().call(__context, __obj, *args, **kwargs))
        __self._bounded(owner)  # a list may have grown
        return result

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        match operator, left, right:
            case "*", str() | list() | tuple(), int():
                self._bound(len(left) * right)
            case "*", int(), str() | list() | tuple():
                self._bound(len(right) * left)
            case "*", int(), int():
                self._bound(left.bit_length() + right.bit_length())
            case "**", int(), int():
                self._bound(left.bit_length() * right)
            case "%", str(), _:
                raise Refused("template-refused", "texts are not formatted with %", "put them together with ~")
            case _:
                pass
        result = super().call_binop(context, operator, left, right)
        return self.bundled(result) if isinstance(result, list | tuple) else self._bounded(result)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`format` can make a text of any width, so it is not there."""
        if getattr(value, "__name__", "") in ("format", "format_map") and isinstance(
            getattr(value, "__self__", None), str
        ):
            raise Refused("template-refused", "texts are not formatted", "put them together with ~")
        return None

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        endless = isinstance(obj, str) and attr in _UNBOUNDED_METHODS
        return not endless and not isinstance(obj, int | float | bytes) and super().is_safe_attribute(obj, attr, value)

    def _to_json(self, value: Any) -> str:
        self._bound(self._length(value))
        return json.dumps(value, ensure_ascii=False)

    def _replace(self, text: Any, old: str, new: str) -> str:
        self._bound(str(text).count(old) * len(new))
        return str(self._bounded(str(text).replace(old, new)))

    def _paid(self, made: Any) -> Any:
        """A filter that costs as many steps as there are thousands in what it is given."""

        @wraps(made)
        def paid(*args: Any, **kwargs: Any) -> Any:
            self._spend(1 + sum(self._length(arg) for arg in args if isinstance(arg, str | list | tuple)) // 1000)
            return self._bounded(made(*args, **kwargs))

        return paid

    def _sum(self, items: Any, attribute: str | None = None) -> Any:
        numbers = [self.getattr(item, attribute) if attribute else item for item in self.each(items)]
        return sum(number for number in numbers if isinstance(number, int | float))

    def _join(self, items: Any, by: str = "") -> str:
        parts = [str(item) for item in self.each(items)]
        self._bound(sum(map(len, parts)) + len(by) * len(parts))
        return by.join(parts)

    def _shown(self, value: Any) -> Any:
        """What comes out of `{{ … }}`: a value that has a text of its own."""
        if isinstance(value, Iterator):
            raise Refused("template-syntax", "this is a list that was not made yet", "add `| list`, or join it")
        self._out += self._length(value)
        self._bound(self._out)
        return value

    def _spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise Refused("template-refused", f"the template takes more than {MAX_STEPS:,} steps", "loop over less")

    def _bounded(self, value: Any) -> Any:
        if isinstance(value, str):
            self._bound(len(value))
        elif isinstance(value, list | tuple | dict):
            self._bound(len(value) * _ITEM)
        return value

    def _bound(self, length: int) -> None:
        if length > MAX_LENGTH:
            self._too_long()

    def _too_long(self) -> NoReturn:
        raise Refused("template-refused", f"the template makes more than {MAX_LENGTH:,} characters", "make less")

    # What a template may ask for

    def _refer(self, kind: str, names: tuple[Any, ...]) -> str:
        if len(names) != 1 or not isinstance(names[0], str):
            call = "source" if kind == "source" else "ref"
            text, hint = f"`{call}()` takes one name", f'put it in quotes: `{call}("name")`'
            raise Refused("template-syntax", text, hint)
        self._called.append((kind, names[0]))
        return quoted(f"{kind}.{names[0]}")

    def _var(self, name: str, *default: Any) -> Any:
        if name in self._variables:
            return self._variables[name]
        if default:
            return default[0]
        close = nearest(str(name), self._variables)
        hint = f"did you mean `{close}`?" if close else f"add it to `vars:`, or give it with --var {name}=…"
        raise Refused("unknown-var", f"there is no variable `{name}`", hint, name)

    def _env_var(self, name: str, *default: Any) -> Any:
        if is_secret(name, self._environ):
            problem = secret_problem(name, 0)
            raise Refused(problem.code, problem.message, problem.hint, name)
        if (value := self._environ.get(name)) is not None:
            return value
        if default:
            return default[0]
        problem = unset_problem(name, self._environ, 0)
        raise Refused(problem.code, problem.message, f'set it, or write `env_var("{name}", "default")`', name)

    # Macros

    def _take_macros(self, files: tuple[TextFile, ...]) -> None:
        """Macros of all files see each other: they are one template, whose lines are known by file."""
        sound: list[TextFile] = []
        owners: dict[str, str] = {}
        for file in files:
            try:
                tree = self._parse(file.text, None, None)
            except TemplateSyntaxError as error:
                self._blame(file, error.lineno, error.message or "this is not Jinja", "template-syntax")
                continue
            for macro in tree.find_all(nodes.Macro):
                if macro.name in self.globals:
                    self._blame(file, macro.lineno, f"`{macro.name}()` is there already", "duplicate-name")
                elif macro.name in owners:
                    text = f"the macro `{macro.name}` is in {owners[macro.name]}, too"
                    self._blame(file, macro.lineno, text, "duplicate-name")
                owners.setdefault(macro.name, file.file)
            sound.append(file)
        try:
            module = self._template("\n".join(file.text for file in sound), _MACROS).module
        except (Refused, TemplateError, TypeError, ValueError, RecursionError) as error:
            self._blame(files[0], 1, f"the macros cannot be read: {error}", "template-syntax")
            return
        macros = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        self.globals = {**macros, **self.globals}

    def _blame(self, file: TextFile, line: int, text: str, code: str) -> None:
        start = sum(len(row) for row in file.text.splitlines(keepends=True)[: line - 1])
        hint = "give it another name" if code == "duplicate-name" else "look for a missing `%}`, `}}` or `endmacro`"
        self.mistakes.append(Diagnostic(code, text, file.origin(start), "macros", hint))

    # Rendering

    def rendered(self, text: str) -> Rendered:
        missing: list[TemplateProblem] = []
        try:
            sql = self._run(prepared(text, self._environ, missing, marked=False))
            calls = list(dict.fromkeys(self._called))
        except TemplateSyntaxError as error:
            offset = _line_start(text, error.lineno)
            hint = "look for a missing `%}`, `}}` or `endif`"
            return Rendered("", problems=(TemplateProblem("template-syntax", _sentence(error), offset, hint),))
        except Refused as error:
            offset = _line_start(text, error.line or _line_of(error.__traceback__), error.subject)
            problem = TemplateProblem(error.code, error.message, offset, error.hint, error.subject)
            return Rendered("", problems=(problem,))
        except RecursionError:
            return Rendered("", problems=(TemplateProblem("template-refused", "macros call each other without end"),))
        except Exception as error:  # noqa: BLE001 - a template can make anything fail; whatever it is, it is its own
            code = "template-refused" if isinstance(error, SecurityError | OverflowError) else "template-syntax"
            unknown = _UNDEFINED.fullmatch(str(error)) if isinstance(error, UndefinedError) else None
            near = did_you_mean(unknown[1], self.globals) if unknown else None
            subject = unknown[1] if unknown else ""
            offset = _line_start(text, _line_of(error.__traceback__), subject)
            return Rendered("", problems=(TemplateProblem(code, _sentence(error), offset, near, subject),))
        pieces = self._pieces(text, sql)
        found = Rendered(sql, pieces=pieces)
        references = tuple(
            Reference("source" if kind == "source" else "model", name, found.written(_place(sql, kind, name)))
            for kind, name in calls
        )
        return Rendered(sql, references, tuple(missing), pieces)

    def _run(self, text: str) -> str:
        self._left, self._called, self._lengths, self._out = MAX_STEPS, [], {}, 0
        sql = self._template(text, _MODEL).render()
        self._bound(len(sql))
        if not sql.isascii() and sql != sql.encode(errors="replace").decode():
            raise Refused("template-refused", "the template makes half a character", "write the character itself")
        return sql

    def _template(self, text: str, filename: str) -> Template:
        code: CodeType = self.compile(text, name=filename, filename=filename)
        return self.template_class.from_code(self, code, self.make_globals(None), None)

    def _pieces(self, text: str, sql: str) -> tuple[Piece, ...]:
        """Which part of the text each part of the SQL comes from.

        The template is run once more with a marker before each literal part. Where that changes what it does, because
        it looks at its own text, nothing finer than the whole is claimed.
        """
        try:
            marked = self._run(prepared(text, self._environ, [], marked=True))
        except Exception:  # noqa: BLE001 - it went well without markers
            return ()
        return pieces_of(marked, sql)


def config_of(text: str) -> tuple[dict[str, Any], list[str]]:
    """What a text says about its model with `{{ config(key=value, …) }}`, and the keys whose values are computed."""
    try:
        tree = SandboxedEnvironment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]).parse(text)
    except TemplateSyntaxError:
        return {}, []  # rendering says so
    calls = [c for c in tree.find_all(nodes.Call) if isinstance(c.node, nodes.Name) and c.node.name == "config"]
    found: dict[str, Any] = {}
    computed: list[str] = []
    for call in calls:
        for argument in call.kwargs:
            try:
                found[argument.key] = argument.value.as_const()
            except nodes.Impossible:
                computed.append(argument.key)
    return found, computed


def _counted(node: nodes.Node) -> nodes.Node:
    """The node, as a call of the sandbox if it puts texts or values together."""
    match node:
        case nodes.Concat():
            return _call_of("joined", node.nodes, node)
        case nodes.List() | nodes.Dict():
            return _call_of("bundled", [node], node)
        case nodes.Tuple() if node.ctx == "load":
            return _call_of("bundled", [node], node)
        case _:
            return node


def _call_of(method: str, arguments: Sequence[nodes.Node], place: nodes.Node) -> nodes.Node:
    """A call of the sandbox's own method, which no name in a template can stand before."""
    function = nodes.EnvironmentAttribute(method)
    return nodes.Call(function, list(arguments), [], None, None).set_lineno(place.lineno)


def _place(sql: str, kind: str, name: str) -> int:
    return max(0, sql.find(quoted(f"{kind}.{name}")))


def _line_of(trace: TracebackType | None) -> int:
    """The line of the model's own text in which something failed."""
    line = 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _MODEL:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _line_start(text: str, line: int, subject: str = "") -> int:
    """Where a line begins that failed: at its first tag, or at the first one that has the subject in it."""
    rows = text.splitlines(keepends=True)
    start = sum(len(row) for row in rows[: line - 1])
    if line > len(rows):
        return start
    marks = list(re.finditer(r"\{\{.*?\}\}|\{%.*?%\}|\{\{|\{%", rows[line - 1]))
    mark = next((m for m in marks if subject and subject in m[0]), marks[0] if marks else None)
    return start + (mark.start() if mark else len(rows[line - 1]) - len(rows[line - 1].lstrip()))


def _sentence(error: BaseException) -> str:
    text = (error.message if isinstance(error, TemplateError) else str(error)) or type(error).__name__
    return text[:1].lower() + text[1:].rstrip(".")
