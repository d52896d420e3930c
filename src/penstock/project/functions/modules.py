"""The Python files of `functions/` as syntax trees, and the imports between them."""

import ast
import hashlib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import Diagnostic, Origin, did_you_mean

FOLDER: Final = "functions"


@dataclass(frozen=True, slots=True)
class PythonFile:
    """A Python file. `path` is relative to the directory of the project, `file` is its path in messages."""

    path: str
    file: str
    text: str

    @property
    def module(self) -> str:
        """Its name inside the package: `functions/geo/area.py` is `geo.area`, and `functions/__init__.py` is empty."""
        parts = self.path.removesuffix(".py").split("/")[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_package(self) -> bool:
        return self.path.endswith("/__init__.py")

    def origin(self, node: ast.stmt | ast.expr | ast.arg) -> Origin:
        line = self.text.splitlines()[node.lineno - 1] if self.text else ""
        before = line.encode()[: node.col_offset].decode(errors="replace")
        return Origin(self.file, node.lineno, len(before) + 1)


def function_files(root: Path) -> list[Path]:
    """Return the Python files of `functions/` at any depth, in a stable order, without tests and hidden files."""
    found = (path for path in (root / FOLDER).rglob("*.py") if path.is_file() or path.is_symlink())
    return sorted(path for path in found if not any(map(_is_ignored, path.relative_to(root).parts)))


def _is_ignored(name: str) -> bool:
    return name.startswith((".", "test_")) or name == "conftest.py"


def parse_file(file: PythonFile) -> ast.Module | Diagnostic:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(file.text)
    except SyntaxError as error:
        origin = Origin(file.file, error.lineno or 1, max(error.offset or 1, 1))
        return Diagnostic("function-syntax", f"this is not valid Python: {error.msg}", origin)
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "it is nested too deeply"
        return Diagnostic("function-syntax", f"this is not valid Python: {reason}", Origin(file.file))


def wrong_imports(file: PythonFile, tree: ast.Module, modules: Mapping[str, PythonFile]) -> Iterator[Diagnostic]:
    """Report imports of the folder that cannot work on executors."""
    parts = [name.split(".") for name in modules if name]
    known = {*modules, *(".".join(names[:count]) for names in parts for count in range(1, len(names)))}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=name, level=0) if name is not None and _is_own(name):
                yield _absolute_import(file, node, name)
            case ast.Import(names=names):
                for alias in names:
                    if _is_own(alias.name):
                        yield _absolute_import(file, node, alias.name)
            case ast.ImportFrom(level=level) if level > 0 and known.isdisjoint(_imported_names(file, node)):
                written = f"{'.' * level}{node.module or ''}"
                hint = did_you_mean(node.module or "", [name for name in modules if name], otherwise="modules")
                text = f"there is no module `{written}` in `{FOLDER}/`"
                yield Diagnostic("function-import", text, file.origin(node), hint=hint)
            case _:
                pass


def _is_own(name: str) -> bool:
    return name == FOLDER or name.startswith(f"{FOLDER}.")


def _absolute_import(file: PythonFile, node: ast.stmt, name: str) -> Diagnostic:
    text = f"`{name}` cannot be imported by this name on executors"
    below = name.removeprefix(FOLDER).removeprefix(".")
    hint = f"files of `{FOLDER}/` import each other by a relative name: `from .{below} import …`"
    return Diagnostic("function-import", text, file.origin(node), hint=hint)


def source_digest(path: str, trees: Mapping[str, ast.Module], files: Mapping[str, PythonFile]) -> str:
    """Return the digest of a file with all files of the folder that it imports. Both mappings are by path."""
    modules = {file.module: file for file in files.values()}
    found, waiting = dict[str, PythonFile](), [path]
    while waiting:
        file = files[waiting.pop()]
        if file.path in found:
            continue
        found[file.path] = file
        packages = file.module.split(".")[: -1 if not file.is_package else None]
        above = (modules.get(".".join(packages[:count])) for count in range(len(packages) + 1))
        imported = (
            target
            for node in (ast.walk(trees[file.path]) if file.path in trees else ())
            if isinstance(node, ast.ImportFrom) and node.level > 0
            for target in _targets(file, node, modules)
        )
        waiting += [other.path for other in (*above, *imported) if other is not None]
    whole = hashlib.sha256()
    for name in sorted(found):
        whole.update(f"{name}\0{len(found[name].text)}\0{found[name].text}".encode())
    return whole.hexdigest()[:16]


def _targets(file: PythonFile, node: ast.ImportFrom, modules: Mapping[str, PythonFile]) -> Iterator[PythonFile]:
    """Return the files that a relative import can mean: the module itself, and modules among the imported names."""
    for name in _imported_names(file, node):
        if (found := modules.get(name)) is not None:
            yield found


def _imported_names(file: PythonFile, node: ast.ImportFrom) -> Iterator[str]:
    """Return the names of modules that a relative import can mean, inside the package."""
    parts = [part for part in file.module.split(".") if part]
    kept = len(parts) - node.level + (1 if file.is_package else 0)
    if kept < 0:
        return
    base = [*parts[:kept], *(node.module.split(".") if node.module else ())]
    for name in (base, *([*base, alias.name] for alias in node.names)):
        yield ".".join(name)
