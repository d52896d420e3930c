"""What a query puts out: columns, their types, and where each comes from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from penstock.errors import did_you_mean
from penstock.sql.calls import wrong_arguments, wrong_calls
from penstock.sql.functions import decimal_type, is_trusted, tell_types
from penstock.sql.keys import unsteady_keys
from penstock.sql.operands import kinds, numbered
from penstock.sql.origins import InputColumn, Known, Origins, origin_of, origins, passed
from penstock.sql.query import Problem, Query, offset_of
from penstock.sql.translate import name_projections
from penstock.sql.types import Column, Columns, data_type, type_text
from penstock.sql.window_calls import Part, made_windows, place_of
from penstock.sql.window_tables import WINDOW_COLUMNS
from penstock.sql.windows import Followed, Made, follow, is_window_table


@dataclass(frozen=True, slots=True)
class WindowTime:
    """An end of a window: the input column that the window is over, and how far it may lag behind that, in ms."""

    over: InputColumn
    part: Part
    behind_ms: int


@dataclass(frozen=True, slots=True)
class Analysis:
    """`columns` is None when the inputs do not tell.

    `origins` has the input columns that each output is made from. `times` has, for each window in the order of the
    text, the input column it is over; `window_times` has the outputs that are ends of windows. `operands` are types
    that the translation depends on.
    """

    columns: Columns | None
    origins: Mapping[str, Origins]
    times: tuple[InputColumn | None, ...] = ()
    window_times: Mapping[str, WindowTime] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    operands: tuple[str | None, ...] = ()


NOTHING_KNOWN = Analysis(None, {})


def analyse(
    query: Query, inputs: Mapping[str, Columns | None], answers: Mapping[str, str] = MappingProxyType({})
) -> Analysis:
    """`answers` are the types that models of machine learning answer with, by name."""
    scopes = traverse_scope(query.tree)
    problems = tuple(problem for scope in scopes for problem in _taken_window_names(scope, inputs))
    problems = problems or (
        *(problem for scope in scopes for problem in _unresolved(scope, inputs)),
        *wrong_calls(query),
        *unsteady_keys(query),
    )
    if problems:
        return Analysis(None, {}, problems=problems)
    taken = query.take_tree()
    typed_nodes = numbered(taken)
    written = name_projections(taken)
    spelled = _spellings(written, inputs)
    written_names = [(e.output_name, offset_of(e)) for e in written.selects]
    known: dict[str, object] = {
        name: {c.name.casefold(): data_type(c.type or "unknown") for c in columns}
        for name, columns in inputs.items()
        if columns is not None
    }
    schema = MappingSchema(known, dialect=query.dialect, normalize=False)
    try:
        tree = qualify(
            written,
            schema=schema,
            dialect=query.dialect,
            allow_partial_qualification=True,
            expand_alias_refs=False,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
    except SqlglotError:
        return NOTHING_KNOWN
    scopes = traverse_scope(tree)
    if not scopes or not isinstance(tree, exp.Query):
        return NOTHING_KNOWN
    names = {
        node_id: None if columns is None else frozenset(c.name.casefold() for c in columns)
        for node_id, columns in inputs.items()
    }
    followed = follow(tree)
    times = tuple(_origin(made, followed, names) for made in followed.roots())
    if tree.is_star or tree.find(exp.Pivot) or any(e.find(exp.Star) and _is_fields(e) for e in tree.selects):
        return Analysis(None, {}, times)
    if problems := tuple(_unusable_outputs(tree, written_names)):
        return Analysis(None, {}, times, problems=problems)
    if len(tree.named_selects) != len(_sides(tree)):
        return Analysis(None, {}, times)
    traced = origins(scopes[-1], names)
    unchanged = passed(traced)
    tell_types(tree, answers)
    typed = annotate_types(tree, schema=schema, dialect=query.dialect)
    given = {InputColumn(name, c.name.casefold()): c.type for name, columns in inputs.items() for c in columns or ()}
    makes_rows = tree.find(exp.Explode, exp.Posexplode, exp.Inline) is not None
    columns = tuple(
        Column(
            spelled.get(name, name),
            given.get(unchanged[name]) if name in unchanged else None if makes_rows else _shared_type(same),
        )
        for name, same in zip(tree.named_selects, _sides(typed), strict=True)
    )
    ends = {spelled.get(name, name): end for name, end in _window_outputs(tree, followed, names)}
    return Analysis(
        columns,
        {spelled.get(name, name): found for name, found in traced.items()},
        times,
        ends,
        tuple(wrong_arguments(typed)),
        kinds(typed, typed_nodes, _computed_type),
    )


def _is_fields(projection: exp.Expr) -> bool:
    """Whether an output stands for all fields of a struct."""
    expression = projection.unalias()
    return isinstance(expression, exp.Column | exp.Dot) and expression.find(exp.Star) is not None


def _origin(made: Made, followed: Followed, known: Known) -> InputColumn | None:
    """The input column that a window is over."""
    time = made.call.time
    return origin_of(time, followed.scopes[id(made.select)], known) if isinstance(time, exp.Column) else None


def _window_outputs(tree: exp.Query, followed: Followed, known: Known) -> Iterator[tuple[str, WindowTime]]:
    """The outputs that are times of windows.

    Whole windows come in the order of their ends, but single rows may be behind by the size of the window; and a
    session may begin any time before others that ended earlier.
    """
    for name, column in followed.outputs.get(id(tree), {}).items():
        made = column.made
        origin = _origin(followed.root(made), followed, known)
        behind = 0 if column.closed else made.call.lengths.get("SIZE", 0)
        if origin is not None and not (made.call.kind == "SESSION" and column.part == "start"):
            yield name, WindowTime(origin, column.part, behind)


def _spellings(tree: exp.Query, inputs: Mapping[str, Columns | None]) -> dict[str, str]:
    """Names of outputs as people wrote them, by the folded form that analysis works with."""
    spelled = {c.name.casefold(): c.name for columns in inputs.values() for c in columns or ()}
    spelled.update((e.output_name.casefold(), e.output_name) for e in tree.selects if e.output_name)
    return spelled


def _sides(tree: exp.Expr) -> list[tuple[exp.Expr, ...]]:
    """The outputs of a query, each with those that a set operation puts under it."""
    if isinstance(tree, exp.SetOperation):
        return [(*a, *b) for a, b in zip(_sides(tree.left.unnest()), _sides(tree.right.unnest()), strict=False)]
    return [(projection,) for projection in tree.selects] if isinstance(tree, exp.Query) else []


def _shared_type(same: tuple[exp.Expr, ...]) -> str | None:
    """The type of an output; where the sides of a set operation differ, Spark widens them by rules of its own."""
    kinds = {_computed_type(projection) for projection in same}
    return kinds.pop() if len(kinds) == 1 else None


def _computed_type(projection: exp.Expr) -> str | None:
    """Most computed decimals are left open, because Spark widens them by rules of its own."""
    expression = projection.unalias()
    if projection.type is not None and projection.type.this is exp.DType.DECIMAL:
        return type_text(projection.type) if isinstance(expression, exp.Cast) else decimal_type(expression)
    return type_text(projection.type) if is_trusted(projection) else None


def _unusable_outputs(tree: exp.Query, written: list[tuple[str, int]]) -> Iterator[Problem]:
    """Two outputs of one name, or a UNION whose sides do not fit."""
    seen: set[str] = set()
    for name in tree.named_selects:
        if name.casefold() in seen:
            offset = max((at for found, at in written if found.casefold() == name.casefold()), default=0)
            text, hint = f"two outputs are called `{name}`", "give one of them another name with AS"
            yield Problem("sql-duplicate-column", text, offset, hint, name)
        seen.add(name.casefold())
    for union in tree.find_all(exp.SetOperation):
        sides = [len(side.named_selects) for side in (union.left, union.right) if not side.is_star]
        if len(set(sides)) > 1:
            text = f"the two sides of a UNION have {sides[0]} and {sides[1]} columns"
            yield Problem("sql-statement", text, offset_of(union.right), "select the same columns on both sides")


# Columns that are not there


def _unresolved(scope: Scope, inputs: Mapping[str, Columns | None]) -> Iterator[Problem]:
    """Columns that none of the scope's sources has. Where a source is not known, nothing is claimed."""
    sources = {alias.casefold(): _columns_of(source, inputs) for alias, source in _read_by(scope)}
    seen: set[tuple[str, str]] = set()
    for column in scope.columns:
        if isinstance(scope.expression, exp.Select) and column.parent_select is not scope.expression:
            continue  # it stands in a subquery, which is looked at by itself
        table = column.table.casefold()
        if (table, column.name) in seen:
            continue
        seen.add((table, column.name))
        if table and table not in sources:
            a_struct = any(columns is None or table in map(str.casefold, columns) for columns in sources.values())
            if not a_struct and not _from_outside(table, scope):
                hint = did_you_mean(column.table, scope.sources, otherwise="inputs")
                yield _problem(column, f"there is no input `{column.table}`", hint, column.table)
            continue
        asked = [sources[table]] if table else list(sources.values())
        if any(columns is None for columns in asked):
            continue
        candidates = [name for columns in asked for name in columns or ()]
        matches = sum(column.name.casefold() == name.casefold() for name in candidates)
        if matches == 1 or (table and matches) or _is_alias(column, scope) or _is_shared(column, scope):
            continue
        if matches > 1:
            text = f"column `{column.name}` is in several inputs"
            yield _problem(column, text, "write the input's name before it", column.name)
        elif table or not scope.is_subquery:  # without a table it may be a column of the query around
            hint = did_you_mean(column.name, candidates, otherwise="columns")
            yield _problem(column, f"no input has a column `{column.name}`", hint, column.name)


def _taken_window_names(scope: Scope, inputs: Mapping[str, Columns | None]) -> Iterator[Problem]:
    """A window over a table adds columns; what it reads must not have them already."""
    select = scope.expression
    if isinstance(select, exp.Select) and is_window_table(select) and (made := made_windows(select)):
        read = {name.casefold() for _, source in _read_by(scope) for name in _columns_of(source, inputs) or ()}
        if taken := [f"`{name}`" for name in WINDOW_COLUMNS if name in read]:
            text = f"a window adds {', '.join(taken)}, and what it is over has that already"
            hint = "give it another name there, with AS"
            yield Problem("window-invalid", text, place_of(made[0].node), hint)


def _read_by(scope: Scope) -> Iterator[tuple[str, exp.Expr | Scope]]:
    """What the scope reads, by alias: not every CTE that it could."""
    selected = scope.selected_sources
    return ((alias, source) for alias, (_, source) in selected.items()) if selected else iter(scope.sources.items())


def _problem(column: exp.Column, text: str, hint: str | None, subject: str) -> Problem:
    return Problem("sql-unknown-column", text, column.this.meta.get("start", 0), hint, subject)


def _columns_of(source: exp.Expr | Scope, inputs: Mapping[str, Columns | None]) -> list[str] | None:
    if isinstance(source, exp.Table):
        columns = inputs.get(source.name)
        return None if columns is None else [c.name for c in columns]
    if isinstance(source, Scope) and isinstance(source.expression, exp.Query):
        named = getattr(source.expression.parent, "alias_column_names", None)
        return list(named) if named else _outputs(source, inputs)
    return None


def _outputs(scope: Scope, inputs: Mapping[str, Columns | None]) -> list[str] | None:
    """The outputs of a subquery or CTE, stars included where their source is known."""
    if isinstance(scope.expression, exp.SetOperation):
        return _outputs(scope.set_operation_scopes[0], inputs) if scope.set_operation_scopes else None
    names: list[str] = []
    selects: list[exp.Expr] = getattr(scope.expression, "selects", [])
    for projection in selects:
        if not projection.is_star:
            names.append(projection.alias_or_name)
            continue
        table = projection.table.casefold() if isinstance(projection, exp.Column) else None
        for alias, source in _read_by(scope):
            if table is None or alias.casefold() == table:
                columns = _columns_of(source, inputs)
                if columns is None:
                    return None
                names.extend(columns)
    return names


def _from_outside(alias: str, scope: Scope) -> bool:
    """Whether a subquery reaches for an input of the query around it."""
    parent = scope.parent
    if parent is None:
        return False
    return alias in {name.casefold() for name in parent.sources} or _from_outside(alias, parent)


def _is_shared(column: exp.Column, scope: Scope) -> bool:
    """Whether JOIN … USING makes one column of two."""
    joins = scope.expression.args.get("joins") or ()
    return any(column.name.casefold() == i.name.casefold() for join in joins for i in join.args.get("using") or ())


def _is_alias(column: exp.Column, scope: Scope) -> bool:
    """Whether a plain name stands for an output: GROUP BY, HAVING and ORDER BY may use one, WHERE may not."""
    select = scope.expression
    if column.table or not isinstance(select, exp.Select):
        return False
    aliases = [e for e in select.expressions if isinstance(e, exp.Alias)]
    same = [e for e in aliases if e.alias.casefold() == column.name.casefold()]
    if not same:
        return False
    later = select.expressions[select.expressions.index(same[0]) + 1 :]
    if any(column is found for e in later for found in e.find_all(exp.Column)):
        return True  # an output may name one before it
    clauses = (select.args.get(name) for name in ("group", "having", "order"))
    return any(column is found for clause in clauses if clause is not None for found in clause.find_all(exp.Column))
