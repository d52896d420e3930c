"""What a query puts out: columns, their types, and where each comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from penstock.errors import did_you_mean
from penstock.sql.query import Problem, Query
from penstock.sql.types import Column, Columns, data_type, type_text


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A column of one of the query's inputs."""

    input: str
    name: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """`columns` is None when the inputs do not tell; `passed` has the outputs that are an input column, unchanged."""

    columns: Columns | None
    passed: Mapping[str, InputColumn]
    problems: tuple[Problem, ...]


def analyse(query: Query, inputs: Mapping[str, Columns | None]) -> Analysis:
    known: dict[str, object] = {
        name: {c.name.casefold(): data_type(c.type or "unknown") for c in columns}
        for name, columns in inputs.items()
        if columns is not None
    }
    schema = MappingSchema(known, dialect=query.dialect, normalize=False)
    tree: exp.Expr = query.taken()
    spelled = _spellings(tree, inputs)
    try:
        tree = qualify(
            tree, schema=schema, dialect=query.dialect, validate_qualify_columns=False, quote_identifiers=False
        )
    except SqlglotError as error:
        return Analysis(None, {}, (Problem("sql-unknown-column", str(error).splitlines()[0]),))
    scopes = traverse_scope(tree)
    problems = tuple(problem for scope in scopes for problem in _unresolved(scope, inputs))
    if problems or not scopes or not isinstance(tree, exp.Query) or tree.is_star:
        return Analysis(None, {}, problems)
    typed = annotate_types(tree, schema=schema, dialect=query.dialect)
    passed = _passed(scopes[-1])
    given = {InputColumn(name, c.name.casefold()): c.type for name, columns in inputs.items() for c in columns or ()}
    columns = tuple(
        Column(
            spelled.get(e.alias_or_name, e.alias_or_name),
            given.get(passed[e.alias_or_name]) if e.alias_or_name in passed else _computed_type(e),
        )
        for e in typed.selects
    )
    return Analysis(columns, {spelled.get(name, name): origin for name, origin in passed.items()}, ())


def _spellings(tree: exp.Expr, inputs: Mapping[str, Columns | None]) -> dict[str, str]:
    """Names as people wrote them, by the folded form that analysis works with."""
    spelled = {c.name.casefold(): c.name for columns in inputs.values() for c in columns or ()}
    spelled.update((i.name.casefold(), i.name) for i in tree.find_all(exp.Identifier))
    return spelled


def _computed_type(projection: exp.Expr) -> str | None:
    """Computed decimals are left open: Spark widens them by rules of its own."""
    cast = isinstance(projection.unalias(), exp.Cast)
    decimal = projection.type is not None and projection.type.this is exp.DType.DECIMAL
    return None if decimal and not cast else type_text(projection.type)


def _unresolved(scope: Scope, inputs: Mapping[str, Columns | None]) -> Iterator[Problem]:
    sources = {alias: _columns_of(source, inputs) for alias, source in scope.sources.items()}
    outputs = {e.alias_or_name.casefold() for e in getattr(scope.expression, "selects", ())}
    closed = not any(columns is None for columns in sources.values())
    seen: set[tuple[str, str]] = set()
    for column in scope.columns:
        known = sources.get(column.table) if column.table else None
        if column.table:
            missing = known is not None and column.name.casefold() not in {n.casefold() for n in known}
            candidates = known or []
        else:
            candidates = [n for columns in sources.values() for n in columns or ()]
            missing = closed and column.name.casefold() not in outputs
        if not missing or (column.table, column.name) in seen:
            continue
        seen.add((column.table, column.name))
        twice = sum(column.name.casefold() == name.casefold() for name in candidates) > 1
        text = f"column `{column.name}` is in several inputs" if twice else f"no input has a column `{column.name}`"
        hint = (
            "write the input's name before it" if twice else did_you_mean(column.name, candidates, otherwise="columns")
        )
        offset = column.this.meta.get("start", 0)
        yield Problem("sql-unknown-column", text, offset, hint, subject=column.name)


def _columns_of(source: exp.Expr | Scope, inputs: Mapping[str, Columns | None]) -> list[str] | None:
    if isinstance(source, exp.Table):
        columns = inputs.get(source.name)
        return None if columns is None else [c.name for c in columns]
    if isinstance(source, Scope) and isinstance(source.expression, exp.Query) and not source.expression.is_star:
        return list(source.expression.named_selects)
    return None


def _passed(scope: Scope) -> dict[str, InputColumn]:
    if not isinstance(scope.expression, exp.Select):
        return {}
    found = {e.alias_or_name: _origin_of(e.unalias(), scope) for e in scope.expression.selects}
    return {name: origin for name, origin in found.items() if origin is not None}


def _origin_of(expression: exp.Expr, scope: Scope) -> InputColumn | None:
    if not isinstance(expression, exp.Column):
        return None
    match scope.sources.get(expression.table):
        case exp.Table() as table:
            return InputColumn(table.name, expression.name)
        case Scope(expression=exp.Select()) as inner:
            return _passed(inner).get(expression.name)
        case _:
            return None
