"""Python files to functions of SQL: their signatures, by the hints, and every mistake in them."""

import ast
import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

from penstock.errors import Diagnostic
from penstock.project.functions.hints import WrongHint, hint_type
from penstock.project.functions.modules import PythonFile, parse_file, source_digest, wrong_imports
from penstock.sql.lint.user_calls import find_name_conflict
from penstock.sql.types.user_functions import UserFunction, UserFunctions

_HELPER: Final = "a name that begins with `_` makes it a helper of its file, which SQL does not see"
_DEFINED: Final = re.compile(r"^(?:async )?def ([^\W_]\w*)", re.MULTILINE)


def read_functions(files: Sequence[PythonFile]) -> tuple[UserFunctions, list[Diagnostic]]:
    """Return the functions by name in upper case. Those with mistakes are marked as refused."""
    diagnostics: list[Diagnostic] = []
    trees: dict[str, ast.Module] = {}
    found: dict[str, UserFunction] = {}
    for file in files:
        parsed = parse_file(file)
        if isinstance(parsed, Diagnostic):
            diagnostics.append(parsed)
            found.update({name.upper(): _refused(name, file) for name in _DEFINED.findall(file.text)})
        else:
            trees[file.path] = parsed
    by_path, modules = {file.path: file for file in files}, {file.module: file for file in files}
    places: dict[str, str] = {}
    for path, tree in trees.items():
        file = by_path[path]
        diagnostics += wrong_imports(file, tree, modules)
        digest = source_digest(path, trees, by_path)
        for node in _public_functions(tree):
            function, notes = _read_function(file, node, digest)
            word = node.name.upper()
            if word in places:
                text = f"the function `{node.name}` is also at {places[word]}; SQL ignores the case of names"
                notes = [Diagnostic("duplicate-name", text, file.origin(node), hint=f"rename one; {_HELPER}")]
                function = None
            places.setdefault(word, str(file.origin(node)))
            diagnostics += notes
            found[word] = function or _refused(node.name, file)
    return MappingProxyType(dict(sorted(found.items()))), diagnostics


def _refused(name: str, file: PythonFile) -> UserFunction:
    """Return a function with mistakes. Its calls are not reported as well."""
    return UserFunction(name, (), "", file.path, 1, "", refused=True)


def _public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node


def _read_function(
    file: PythonFile, node: ast.FunctionDef | ast.AsyncFunctionDef, digest: str
) -> tuple[UserFunction | None, list[Diagnostic]]:
    mistakes = [*_wrong_name(file, node), *_wrong_parameters(file, node)]
    parameters: list[tuple[str, str]] = []
    for argument in (*node.args.posonlyargs, *node.args.args):
        kind = _type_of(argument.annotation)
        if isinstance(kind, WrongHint):
            text = f"argument `{argument.arg}` of `{node.name}`: {kind.message}"
            mistakes.append(Diagnostic("function-signature", text, file.origin(argument), hint=kind.hint))
        else:
            parameters.append((argument.arg, kind))
    returns = _type_of(node.returns)
    if isinstance(returns, WrongHint):
        at = file.origin(node if node.returns is None else node.returns)
        text = f"the result of `{node.name}`: {returns.message}"
        mistakes.append(Diagnostic("function-signature", text, at, hint=returns.hint))
        return None, mistakes
    if mistakes:
        return None, mistakes
    about = (ast.get_docstring(node) or "").partition("\n\n")[0]
    place = (file.path, node.lineno, digest, " ".join(about.split()))
    return UserFunction(node.name, tuple(parameters), returns, *place), []


def _type_of(hint: ast.expr | None) -> str | WrongHint:
    if hint is None:
        return WrongHint("it has no type", "add a hint, such as STRING from penstock.functions; " + _HELPER)
    return hint_type(hint)


def _wrong_name(file: PythonFile, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Diagnostic]:
    reason = find_name_conflict(node.name) if node.name.isascii() else "a name has only letters a to z, digits and `_`"
    if reason is not None:
        text, hint = f"a function cannot be called `{node.name}`: {reason}", f"choose another name; {_HELPER}"
        yield Diagnostic("function-name", text, file.origin(node), hint=hint)


def _wrong_parameters(file: PythonFile, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Diagnostic]:
    def wrong(text: str, at: ast.stmt | ast.expr | ast.arg, hint: str) -> Diagnostic:
        return Diagnostic("function-signature", f"`{node.name}` {text}", file.origin(at), hint=hint)

    arguments = node.args
    if isinstance(node, ast.AsyncFunctionDef):
        yield wrong("is async", node, "a function of SQL is a plain `def`")
    for variable, stars in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if variable is not None:
            text = f"takes `{stars}{variable.arg}`, and a function of SQL has a fixed number of arguments"
            yield wrong(text, variable, "write one argument for each value")
    for argument in arguments.kwonlyargs:
        text = f"takes `{argument.arg}` by name only, and SQL passes arguments by position"
        yield wrong(text, argument, "remove the `*` before it")
    for default in arguments.defaults:
        hint = "SQL gives every argument; write a second function for the shorter call"
        yield wrong("has a default value", default, hint)
    if not (arguments.posonlyargs or arguments.args or arguments.vararg or arguments.kwonlyargs):
        hint = "its result has one value for each row, and the arguments are what tells the number of rows"
        yield wrong("takes no argument", node, hint)
