"""Jinja in SQL: the functions of templates, macros, and the positions of errors."""

import re
from collections.abc import Mapping
from dataclasses import replace
from types import CodeType, TracebackType
from typing import Any, Final

from jinja2 import Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment

from penstock.errors import Diagnostic, did_you_mean, nearest
from penstock.project.templates.budget import BudgetedEnvironment, TemplateRefused
from penstock.project.templates.markers import prepare_template, split_pieces
from penstock.project.templates.template import (
    Piece,
    Reference,
    ReferenceKind,
    RenderedSql,
    secret_problem,
    unset_problem,
)
from penstock.project.yaml.documents import TextFile
from penstock.project.yaml.secrets import is_secret
from penstock.project.yaml.variables import Environ
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.parse.query import Problem

_MODEL: Final = "<model>"
_MACROS: Final = "<macros>"
_UNDEFINED: Final = re.compile(r"'(\w+)' is undefined")


class Sandbox(BudgetedEnvironment):
    """Renders the templates of one project with streams, variables and macros."""

    def __init__(
        self, macros: tuple[TextFile, ...], variables: Mapping[str, Any], environ: Environ, environment: str | None
    ) -> None:
        super().__init__()
        self._variables, self._environ = variables, environ
        self._called: list[tuple[ReferenceKind, str]] = []
        self.globals = {
            **{name: self.globals[name] for name in ("range", "dict", "namespace")},
            "source": lambda *names: self._refer("source", names),
            "ref": lambda *names: self._refer("model", names),
            "var": self._var,
            "env_var": self._env_var,
            "env": self._env_var,
            "config": _config,
            "target": {"name": environment or "default"},
        }
        self.mistakes: list[Diagnostic] = []
        self._load_macros(macros)

    # What a template may ask for

    def _refer(self, kind: ReferenceKind, names: tuple[Any, ...]) -> str:
        name, _ = _parse_name("source" if kind == "source" else "ref", names)
        self._called.append((kind, name))
        return quote_spark_identifier(f"{kind}.{name}")

    def _var(self, *given: Any, **named: Any) -> Any:
        name, default = _parse_name("var", (*given, *_default("var", named)), most=2)
        if name in self._variables:
            return self._variables[name]
        if default:
            return default[0]
        close = nearest(name, self._variables)
        hint = f"did you mean `{close}`?" if close else f"add it to `vars:`, or give it with --var {name}=…"
        raise TemplateRefused("unknown-var", f"there is no variable `{name}`", hint, name)

    def _env_var(self, *given: Any, **named: Any) -> Any:
        name, default = _parse_name("env_var", (*given, *_default("env_var", named)), most=2)
        if is_secret(name, self._environ):
            problem = secret_problem(name, 0)
            raise TemplateRefused(problem.code, problem.message, problem.hint, name)
        if (value := self._environ.get(name)) is not None:
            return value
        if default:
            return default[0]
        problem = unset_problem(name, self._environ, 0)
        raise TemplateRefused(problem.code, problem.message, f'set it, or write `env_var("{name}", "default")`', name)

    # Macros

    def _load_macros(self, files: tuple[TextFile, ...]) -> None:
        """Load all macro files as one template, so that macros can call each other. Lines still map to files."""
        sound: list[TextFile] = []
        owners: dict[str, str] = {}
        for file in files:
            try:
                tree = self._parse(file.text, None, None)
            except Exception as error:  # noqa: BLE001 - any failure is an error of the template
                self._add_mistake(file, self._to_problem(error, file.text, 1))
                continue
            for macro in tree.find_all(nodes.Macro):
                if macro.name in self.globals or macro.name in owners:
                    taken = "is built in" if macro.name in self.globals else f"is in {owners[macro.name]}, too"
                    text, place = f"the macro `{macro.name}` {taken}", _line_start(file.text, macro.lineno)
                    self._add_mistake(file, Problem("duplicate-name", text, place, "give it another name"))
                owners.setdefault(macro.name, file.file)
            sound.append(file)
        whole = "\n".join(file.text for file in sound)
        template = self._template(whole, _MACROS)
        try:
            module = template.module
        except Exception as error:  # noqa: BLE001 - see above
            # Lines of a module's failure are those of the code that Jinja made of it.
            line = template.get_corresponding_lineno(_failed_line(error.__traceback__, _MACROS))
            problem = self._to_problem(error, whole, line)
            self._add_mistake(*_locate_in_file(problem, sound))
            return
        macros = {name: value for name, value in vars(module).items() if not name.startswith("_")}
        self.globals = {**macros, **self.globals}

    def _add_mistake(self, file: TextFile, problem: Problem) -> None:
        origin, params = file.origin(problem.offset), {"subject": problem.subject}
        self.mistakes.append(Diagnostic(problem.code, problem.message, origin, "macros", problem.hint, params=params))

    # Rendering

    def render_sql(self, text: str) -> RenderedSql:
        missing: list[Problem] = []
        try:
            sql = self._run(prepare_template(text, self._environ, missing, marked=False))
            calls = list(dict.fromkeys(self._called))
        except Exception as error:  # noqa: BLE001 - any failure is an error of the template
            return RenderedSql("", problems=(self._to_problem(error, text, _failed_line(error.__traceback__, _MODEL)),))
        pieces = self._pieces(text, sql)
        found = RenderedSql(sql, pieces=pieces)
        references = tuple(Reference(kind, name, found.written(_offset_in(sql, kind, name))) for kind, name in calls)
        return RenderedSql(sql, references, tuple(missing), pieces)

    def _to_problem(self, error: Exception, text: str, line: int) -> Problem:
        """The problem at its position in the text. `line` applies if the error has no line."""
        match error:
            case TemplateSyntaxError():
                offset, hint = _line_start(text, error.lineno), "look for a missing `%}`, `}}` or end of a block"
                return Problem("template-syntax", _describe_error(error), offset, hint)
            case TemplateRefused():
                offset = _line_start(text, error.line or line, error.subject)
                return Problem(error.code, error.message, offset, error.hint, error.subject)
            case RecursionError():
                return Problem("template-refused", "the macros call each other in an endless recursion")
            case UndefinedError() if unknown := _UNDEFINED.fullmatch(str(error)):
                offset, near = _line_start(text, line, unknown[1]), did_you_mean(unknown[1], self.globals)
                return Problem("template-syntax", _describe_error(error), offset, near, unknown[1])
            case _:
                code = "template-refused" if isinstance(error, SecurityError | OverflowError) else "template-syntax"
                return Problem(code, _describe_error(error), _line_start(text, line))

    def _run(self, text: str) -> str:
        self.begin()
        self._called = []
        sql = self._template(text, _MODEL).render()
        self.check_length(len(sql))
        if not sql.isascii() and sql != sql.encode(errors="replace").decode():
            text = "the template produces half of a surrogate pair"
            raise TemplateRefused("template-refused", text, "write the character itself")
        return sql

    def _template(self, text: str, filename: str) -> Template:
        code: CodeType = self.compile(text, name=filename, filename=filename)
        return self.template_class.from_code(self, code, self.make_globals(None), None)

    def _pieces(self, text: str, sql: str) -> tuple[Piece, ...]:
        """Map each part of the SQL to the text that it comes from.

        The template is run once more with a marker before each literal part. If the markers change the result, the map
        has only the whole text.
        """
        try:
            marked = self._run(prepare_template(text, self._environ, [], marked=True))
        except Exception:  # noqa: BLE001 - without markers it could be rendered
            return ()
        return split_pieces(marked, sql)


def parse_config_call(text: str) -> tuple[dict[str, Any], list[str]]:
    """The settings of `{{ config(key=value, …) }}` in a text, and the keys whose values are not literals."""
    try:
        tree = SandboxedEnvironment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"]).parse(text)
    except TemplateSyntaxError:
        return {}, []  # rendering reports it
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


def _config(*given: Any, **_: Any) -> str:
    """`config()` renders to nothing: it was parsed before."""
    if given:
        text, hint = "`config()` takes keyword arguments only", 'write `config(materialized="topic")`'
        raise TemplateRefused("template-syntax", text, hint)
    return ""


def _parse_name(call: str, given: tuple[Any, ...], most: int = 1) -> tuple[str, tuple[Any, ...]]:
    """The name argument of a call, and the other arguments."""
    if not 1 <= len(given) <= most or not isinstance(given[0], str):
        more = ", and may have a default" if most > 1 else ""
        text, hint = f"`{call}()` takes one name{more}", f'put it in quotes: `{call}("name")`'
        raise TemplateRefused("template-syntax", text, hint)
    return given[0], given[1:]


def _default(call: str, named: dict[str, Any]) -> tuple[Any, ...]:
    """The default that a call gives as keyword."""
    if named.keys() - {"default"}:
        text, hint = f"`{call}()` takes a name and a default", f'write `{call}("name", "default")`'
        raise TemplateRefused("template-syntax", text, hint)
    return tuple(named.values())


def _offset_in(sql: str, kind: ReferenceKind, name: str) -> int:
    return max(0, sql.find(quote_spark_identifier(f"{kind}.{name}")))


def _locate_in_file(problem: Problem, files: list[TextFile]) -> tuple[TextFile, Problem]:
    """Map a problem in the concatenated files to its own file."""
    offset = problem.offset
    for file in files:
        if offset <= len(file.text):
            return file, replace(problem, offset=offset)
        offset -= len(file.text) + 1
    return files[-1], problem


def _failed_line(trace: TracebackType | None, filename: str) -> int:
    """The line of the text at which rendering failed."""
    line = 1
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _line_start(text: str, line: int, subject: str = "") -> int:
    """The offset of the first tag in a failed line, or of the first one that contains the subject."""
    rows = text.splitlines(keepends=True)
    start = sum(len(row) for row in rows[: line - 1])
    if line > len(rows):
        return start
    marks = list(re.finditer(r"\{\{.*?\}\}|\{%.*?%\}|\{\{|\{%", rows[line - 1]))
    mark = next((m for m in marks if subject and subject in m[0]), marks[0] if marks else None)
    return start + (mark.start() if mark else len(rows[line - 1]) - len(rows[line - 1].lstrip()))


def _describe_error(error: BaseException) -> str:
    text = (error.message if isinstance(error, TemplateError) else str(error)) or type(error).__name__
    return text[:1].lower() + text[1:].rstrip(".")
