"""Loads the modules of user functions from their sources, on the executors: no file of the project is needed there.

Every set of sources has a package of its own, named by its digest. A Python worker that serves two queries, or the same
query before and after a change, loads both.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_ROOT: Final = "penstock_functions_"


class _SourceFinder(MetaPathFinder, Loader):
    """Finds the modules of one package in its sources, by path: `functions/text.py`."""

    def __init__(self, package: str, sources: Mapping[str, str]) -> None:
        self.package = package
        self._sources = {_module_name(package, path): (path, text) for path, text in sources.items()}
        parts = (name.split(".") for name in self._sources)
        self._packages = {package, *(".".join(p[:count]) for p in parts for count in range(1, len(p)))}
        self._packages |= {_module_name(package, path) for path in sources if path.endswith("/__init__.py")}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._sources and fullname not in self._packages:
            return None
        origin = self._sources.get(fullname, (None, ""))[0]
        return ModuleSpec(fullname, self, origin=origin, is_package=fullname in self._packages)

    def exec_module(self, module: ModuleType) -> None:
        path, text = self._sources.get(module.__name__, ("functions", ""))
        exec(compile(text, path, "exec"), module.__dict__)

    def get_source(self, fullname: str) -> str | None:
        """Return the source of a module, for tracebacks."""
        return self._sources.get(fullname, ("", None))[1]


def load_function(digest: str, sources: Callable[[], Mapping[str, str]], file: str, name: str) -> Callable[..., Any]:
    """Return a function of a file. Errors of its module are raised as they are."""
    package = _ROOT + digest
    if not any(isinstance(finder, _SourceFinder) and finder.package == package for finder in sys.meta_path):
        sys.meta_path.append(_SourceFinder(package, sources()))
    function: Callable[..., Any] = getattr(importlib.import_module(_module_name(package, file)), name)
    return function


def _module_name(package: str, path: str) -> str:
    parts = path.removesuffix(".py").split("/")[1:]
    return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
