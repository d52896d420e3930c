"""Caches the analysis of queries. A cached result equals a new analysis."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from penstock import __version__, keyed, sql
from penstock.codes import CODES
from penstock.sql.analyze.analysis import QueryAnalysis, analyze_query
from penstock.sql.analyze.analysis_json import from_json, to_json
from penstock.sql.stateful.stages import Flow
from penstock.sql.types.columns import Columns
from penstock.sql.types.user_functions import NO_FUNCTIONS, UserFunctions

FILE: Final = Path(".penstock") / "cache" / "studies.json"


class AnalysisCache:
    """Caches an analysis by everything that it depends on: the SQL, the columns of the inputs, and the versions used.
    Without a file, the cache lasts as long as the object. A file that is damaged or of another version is ignored, and
    so is a directory that cannot be written.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._file = None if root is None else root / FILE
        self._stored = self._read_file()
        self._used: dict[str, dict[str, Any]] = {}
        self._is_new = False

    def analyze(
        self,
        sql: str,
        inputs: Mapping[str, Columns | None],
        answers: Mapping[str, str],
        flows: Mapping[str, Flow] = MappingProxyType({}),
        ttl_ms: int | None = None,
        *,
        nested: bool = False,
        functions: UserFunctions = NO_FUNCTIONS,
    ) -> QueryAnalysis:
        key = _cache_key(sql, inputs, answers, flows, ttl_ms, nested, functions)
        if (known := self._load_entry(key)) is not None:
            return known
        found = analyze_query(sql, inputs, answers, flows, ttl_ms, nested=nested, functions=functions)
        self._used[key] = to_json(found)
        self._is_new = True
        return found

    def save(self) -> None:
        """Write the entries that were used in this run, and only those."""
        if self._file is None or (not self._is_new and self._used.keys() == self._stored.keys()):
            return
        text = json.dumps({"made_by": _code_version(), "studies": self._used}, separators=(",", ":"))
        staged = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            staged.write_text(text, encoding="utf-8")
            staged.replace(self._file)
        except OSError:
            return

    def _load_entry(self, key: str) -> QueryAnalysis | None:
        stored = self._stored.get(key)
        if stored is None:
            return None
        try:
            found = from_json(stored)
            problems = (*found.problems, *found.notes, *filter(None, [found.hindrance]))
            if any(problem.code not in CODES for problem in problems):
                return None
        except (TypeError, ValueError, KeyError, AttributeError, IndexError):
            return None
        self._used[key] = stored
        return found

    def _read_file(self) -> dict[str, dict[str, Any]]:
        if self._file is None:
            return {}
        try:
            whole = json.loads(self._file.read_text(encoding="utf-8"))
            return dict(whole["studies"]) if whole["made_by"] == _code_version() else {}
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return {}


@cache
def _code_version() -> str:
    """The version of the analysis code: it changes with a release and with an edit of its files."""
    files = sorted(file for room in (sql, keyed) for file in Path(str(room.__file__)).parent.glob("**/*.py"))
    stamps = [(file.name, (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files]
    edition = hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
    return f"penstock {__version__}, sqlglot {version('sqlglot')}, {edition}"


_FLOW: Final = tuple(field.name for field in fields(Flow))


def _sort_set(value: Any) -> Any:
    """A set as a sorted list, so that the output is stable."""
    return sorted(value) if isinstance(value, frozenset) else value


def _cache_key(
    sql: str,
    inputs: Mapping[str, Columns | None],
    answers: Mapping[str, str],
    flows: Mapping[str, Flow],
    ttl_ms: int | None,
    nested: bool,
    functions: UserFunctions,
) -> str:
    columns = [(n, None if c is None else [(x.name, x.type) for x in c]) for n, c in inputs.items()]
    modes = [(n, [_sort_set(getattr(flow, name)) for name in _FLOW]) for n, flow in flows.items()]
    parts = [columns, sorted(answers.items()), modes, ttl_ms, nested]
    parts += [(f.signature, f.file, f.line) for _, f in sorted(functions.items())]  # messages name the place
    return hashlib.sha256("\0".join([sql, *map(repr, parts)]).encode()).hexdigest()
