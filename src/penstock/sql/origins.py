"""Where each output of a query comes from: the columns of its inputs, through subqueries, CTEs and unions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

Way: TypeAlias = Literal["same", "made", "counted"]
"""How a column came: unchanged, as part of an expression, or only counted, so that its values cannot be seen."""

_ORDER: Final[Mapping[Way, int]] = {"counted": 0, "made": 1, "same": 2}
_COUNTS: Final = (exp.Count, exp.CountIf, exp.ApproxDistinct)


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column of one of the query's inputs; `name` is folded."""

    input: str
    name: str


@dataclass(frozen=True, slots=True)
class ColumnOrigin:
    """An input column that an output is made from, and how."""

    input: str
    name: str
    way: Way


Origins: TypeAlias = tuple[ColumnOrigin, ...]


def origins(scope: Scope) -> dict[str, Origins]:
    """The origins of every output, by its name."""
    found = _Tracer().outputs(scope)
    return {name: _listed(ways) for name, ways in found.items()}


def passed(traced: Mapping[str, Origins]) -> dict[str, InputColumn]:
    """The outputs that are an input column, unchanged."""
    return {
        name: InputColumn(found[0].input, found[0].name)
        for name, found in traced.items()
        if len(found) == 1 and found[0].way == "same"
    }


def origin_of(column: exp.Column, scope: Scope) -> InputColumn | None:
    """The input column that a column of this scope is, unchanged."""
    found = _listed(_Tracer().column(column, scope))
    return passed({"": found}).get("")


_Ways: TypeAlias = dict[tuple[str, str], Way]


class _Tracer:
    """Remembers the outputs of each scope: a CTE that is read twice is traced once."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[str, _Ways]] = {}

    def outputs(self, scope: Scope) -> dict[str, _Ways]:
        if id(scope) not in self._seen:
            self._seen[id(scope)] = {}  # a recursive CTE finds nothing in itself
            self._seen[id(scope)] = self._traced(scope)
        return self._seen[id(scope)]

    def _traced(self, scope: Scope) -> dict[str, _Ways]:
        match scope.expression:
            case exp.SetOperation():
                sides = [list(self.outputs(side).values()) for side in scope.set_operation_scopes]
                names = scope.expression.named_selects
                return {name: _united([side[at] for side in sides if at < len(side)]) for at, name in enumerate(names)}
            case exp.Select() as select:
                return {e.alias_or_name: self._expression(e.unalias(), scope) for e in select.selects}
            case _:
                return {}

    def _expression(self, expression: exp.Expr, scope: Scope) -> _Ways:
        if isinstance(expression, exp.Column):
            return self.column(expression, scope)
        found: list[_Ways] = []
        for column in expression.find_all(exp.Column):
            counted = any(isinstance(parent, _COUNTS) for parent in _parents(column, expression))
            ways = self.column(column, _scope_of(column, scope))
            found.append({key: "counted" if counted or way == "counted" else "made" for key, way in ways.items()})
        return _united(found)

    def column(self, column: exp.Column, scope: Scope) -> _Ways:
        owner: Scope | None = scope
        while owner is not None:
            match owner.sources.get(column.table or _only_source(owner)):
                case exp.Table() as table:
                    return {(table.name, column.name): "same"}
                case Scope(expression=exp.Query()) as inner:
                    return self.outputs(inner).get(column.name, {})
                case Scope() as rows:
                    return self._made_of_rows(rows.expression, owner)
                case _:
                    owner = owner.parent
        return {}

    def _made_of_rows(self, function: exp.Expr, owner: Scope) -> _Ways:
        """What UNNEST, EXPLODE and the like put out is made from every column that they are given."""
        given = [c for c in function.find_all(exp.Column) if owner.sources.get(c.table) is not None or not c.table]
        return {key: "made" for c in given for key in self.column(c, owner)}


def _scope_of(column: exp.Column, scope: Scope) -> Scope:
    """The scope that a column stands in: that of a subquery, if it stands in one."""
    select = column.parent_select
    ahead = [scope]
    for candidate in ahead:
        if candidate.expression is select:
            return candidate
        ahead.extend(candidate.subquery_scopes)
    return scope


def _only_source(scope: Scope) -> str:
    """What a column without a table belongs to, where its columns are not known: the one thing that is read."""
    selected = list(scope.selected_sources)
    return selected[0] if len(selected) == 1 else ""


def _parents(node: exp.Expr, top: exp.Expr) -> Iterator[exp.Expr]:
    while node is not top and node.parent is not None:
        node = node.parent
        yield node


def _united(found: list[_Ways]) -> _Ways:
    """Several ways to one column: the one that shows most of it counts."""
    merged: _Ways = {}
    for ways in found:
        for key, way in ways.items():
            if key not in merged or _ORDER[way] > _ORDER[merged[key]]:
                merged[key] = way
    return merged


def _listed(ways: _Ways) -> Origins:
    return tuple(ColumnOrigin(node, name, way) for (node, name), way in ways.items())
