"""Trace each output of a query to the columns of its inputs, through subqueries, CTEs and unions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

Derivation: TypeAlias = Literal["same", "made", "counted"]
"""How an output uses a column: unchanged, in an expression, or only counted, so that it does not show the values."""

_ORDER: Final[Mapping[Derivation, int]] = {"counted": 0, "made": 1, "same": 2}
_COUNTS: Final = (exp.Count, exp.CountIf, exp.ApproxDistinct)


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column of one of the query's inputs. `name` is in lower case."""

    input: str
    name: str


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """An input column that an output is derived from, and the kind of derivation."""

    input: str
    name: str
    way: Derivation


Origins: TypeAlias = tuple[ColumnOrigin, ...]


KnownColumns: TypeAlias = Mapping[str, frozenset[str] | None]
"""The columns of each input in lower case; None where they are not known."""


def trace_origins(scope: Scope, known: KnownColumns) -> dict[str, Origins]:
    """Return the origins of every output by its name."""
    found = _Tracer(known).trace_outputs(scope)
    return {name: _to_origins(ways) for name, ways in found.items()}


UseKind: TypeAlias = Literal["filter", "join", "group"]


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column of an input that filters, joins or groups rows."""

    input: str
    name: str
    use: UseKind


_CLAUSES: Final[Mapping[str, UseKind]] = {
    "where": "filter", "having": "filter", "qualify": "filter", "joins": "join", "group": "group"
}  # fmt: skip


def column_uses(scopes: Iterable[Scope], known: KnownColumns) -> tuple[ColumnUse, ...]:
    """Return the columns that the clauses of a query use, in addition to those of its outputs."""
    tracer, found = _Tracer(known), dict[ColumnUse, None]()
    for scope in scopes:
        if not isinstance(scope.expression, exp.Select):
            continue
        for clause, use in _CLAUSES.items():
            given = scope.expression.args.get(clause) or ()
            for part in given if isinstance(given, list) else [given] if given else ():
                columns = (c for c in part.find_all(exp.Column) if c.parent_select is scope.expression)
                for column in columns:
                    found.update((ColumnUse(*key, use), None) for key in tracer.trace_column(column, scope))
    return tuple(found)


def unchanged_columns(traced: Mapping[str, Origins]) -> dict[str, InputColumn]:
    """Return the outputs that are an unchanged input column."""
    return {
        name: InputColumn(found[0].input, found[0].name)
        for name, found in traced.items()
        if len(found) == 1 and found[0].way == "same"
    }


def origin_of(column: exp.Column, scope: Scope, known: KnownColumns) -> InputColumn | None:
    """Return the input column that a column of this scope passes on unchanged."""
    found = _to_origins(_Tracer(known).trace_column(column, scope))
    return unchanged_columns({"": found}).get("")


_Derivations: TypeAlias = dict[tuple[str, str], Derivation]


class _Tracer:
    """Trace columns and cache the outputs of each scope, so that a CTE that is read twice is traced once."""

    def __init__(self, known: KnownColumns) -> None:
        self._known = known
        self._seen: dict[int, dict[str, _Derivations]] = {}

    def trace_outputs(self, scope: Scope) -> dict[str, _Derivations]:
        if id(scope) not in self._seen:
            self._seen[id(scope)] = {}  # a recursive CTE finds no columns in itself
            self._seen[id(scope)] = self._trace(scope)
        return self._seen[id(scope)]

    def _trace(self, scope: Scope) -> dict[str, _Derivations]:
        match scope.expression:
            case exp.SetOperation():
                outputs = [self.trace_outputs(side) for side in scope.set_operation_scopes]
                names = scope.expression.named_selects
                if scope.expression.args.get("by_name"):
                    return {name: _merge_derivations([side.get(name, {}) for side in outputs]) for name in names}
                sides = [list(side.values()) for side in outputs]
                return {
                    name: _merge_derivations([side[at] for side in sides if at < len(side)])
                    for at, name in enumerate(names)
                }
            case exp.Select() as select:
                return {e.alias_or_name: self._trace_expression(e.unalias(), scope) for e in select.selects}
            case _:
                return {}

    def _trace_expression(self, expression: exp.Expr, scope: Scope) -> _Derivations:
        if isinstance(expression, exp.Column):
            return self.trace_column(expression, scope)
        found: list[_Derivations] = []
        for star in expression.find_all(exp.Star):
            if not isinstance(star.parent, (exp.Column, *_COUNTS)):
                found += [dict.fromkeys(self._source_columns(source), "made") for source in scope.sources.values()]
        counts = expression.find(*_COUNTS) is not None
        for column in expression.find_all(exp.Column):
            counted = counts and any(isinstance(parent, _COUNTS) for parent in _parents(column, expression))
            ways = self.trace_column(column, _scope_of(column, scope))
            found.append({key: "counted" if counted or way == "counted" else "made" for key, way in ways.items()})
        return _merge_derivations(found)

    def trace_column(self, column: exp.Column, scope: Scope) -> _Derivations:
        owner: Scope | None = scope
        while owner is not None:
            if not column.table and (named := self._alias(column, owner)) is not None:
                return self._trace_expression(named, owner)
            source = owner.sources.get(column.table or self._likely_source(column.name, owner))
            if isinstance(column.this, exp.Star) and source is not None:
                return dict.fromkeys(self._source_columns(source), "made")
            match source:
                case exp.Table() as table:
                    return {(table.name, column.name): "same"}
                case Scope(expression=exp.Query()) as inner:
                    return self.trace_outputs(inner).get(column.name, {})
                case Scope() as rows:
                    return self._generated_columns(rows.expression, owner)
                case _:
                    owner = owner.parent
        return {}

    def _source_columns(self, source: exp.Expr | Scope) -> list[tuple[str, str]]:
        """Return every column of a source; `*` represents columns that are not known."""
        if isinstance(source, exp.Table):
            known = self._known.get(source.name)
            return [(source.name, name) for name in sorted(known)] if known else [(source.name, "*")]
        traced = self.trace_outputs(source).values() if isinstance(source, Scope) else ()
        return [key for ways in traced for key in ways]

    def _alias(self, column: exp.Column, scope: Scope) -> exp.Expr | None:
        """Return the output that a plain name refers to where no input has it: Spark lets outputs use others."""
        select = scope.expression
        sources = [source for _, source in scope.selected_sources.values()]
        if not isinstance(select, exp.Select) or any(self._can_have(source, column.name) for source in sources):
            return None
        aliases = (e for e in select.expressions if isinstance(e, exp.Alias) and e.alias == column.name)
        return next((e.this for e in aliases if column not in set(e.find_all(exp.Column))), None)

    def _likely_source(self, name: str, scope: Scope) -> str:
        """Return the source of a column without a table: the only source, or the only one that may have the column."""
        selected = {alias: source for alias, (_, source) in scope.selected_sources.items()}
        likely = [alias for alias, source in selected.items() if len(selected) == 1 or self._can_have(source, name)]
        return likely[0] if len(likely) == 1 else ""

    def _can_have(self, source: exp.Expr | Scope, name: str) -> bool:
        if isinstance(source, exp.Table):
            known = self._known.get(source.name)
            return known is None or name in known
        return isinstance(source, Scope) and (name in self.trace_outputs(source) or source.expression.is_star)

    def _generated_columns(self, function: exp.Expr, owner: Scope) -> _Derivations:
        """Derive the columns of UNNEST, EXPLODE and similar functions from every column in their arguments."""
        given = [c for c in function.find_all(exp.Column) if owner.sources.get(c.table) is not None or not c.table]
        return {key: "made" for c in given for key in self.trace_column(c, owner)}


def _scope_of(column: exp.Column, scope: Scope) -> Scope:
    """Return the scope of a column: the scope of the innermost subquery around it."""
    if not scope.subquery_scopes:
        return scope
    select = column.parent_select
    ahead = [scope]
    for candidate in ahead:
        if candidate.expression is select:
            return candidate
        ahead.extend(candidate.subquery_scopes)
    return scope


def _parents(node: exp.Expr, top: exp.Expr) -> Iterator[exp.Expr]:
    while node is not top and node.parent is not None:
        node = node.parent
        yield node


def _merge_derivations(found: list[_Derivations]) -> _Derivations:
    """Merge several uses of a column: the use that shows most of its values wins."""
    merged: _Derivations = {}
    for ways in found:
        for key, way in ways.items():
            if key not in merged or _ORDER[way] > _ORDER[merged[key]]:
                merged[key] = way
    return merged


def _to_origins(ways: _Derivations) -> Origins:
    return tuple(ColumnOrigin(node, name, way) for (node, name), way in ways.items())
