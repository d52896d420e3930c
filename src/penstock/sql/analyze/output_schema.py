"""Find the output columns of a query, their types and their origins."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.schema import MappingSchema

from penstock.sql.analyze.column_lineage import (
    ColumnUse,
    InputColumn,
    KnownColumns,
    Origins,
    column_uses,
    origin_of,
    trace_origins,
    unchanged_columns,
)
from penstock.sql.analyze.having_columns import has_found_owner, qualify_tree
from penstock.sql.analyze.operand_types import mark_operands, operand_kinds
from penstock.sql.analyze.window_columns import SelectWindow, WindowIndex, index_windows
from penstock.sql.lint.function_calls import wrong_arguments, wrong_calls
from penstock.sql.lint.group_by import find_ungrouped, misplaced_aggregates
from penstock.sql.lint.int256 import annotate_int256, may_have_int256
from penstock.sql.lint.keys import nondeterministic_keys, unordered_keys
from penstock.sql.lint.type_mismatches import AS_NUMBER, find_mismatches
from penstock.sql.lint.unresolved_columns import find_unresolved, window_name_clashes
from penstock.sql.lint.unsupported import find_unsupported
from penstock.sql.lint.user_calls import mistyped_arguments
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Problem, Query, offset_of
from penstock.sql.parse.window_calls import WindowPart
from penstock.sql.rewrite.translate import name_projections
from penstock.sql.types.columns import Column, Columns, data_type, type_text
from penstock.sql.types.families import KnownTypes
from penstock.sql.types.inference_overrides import decimal_type, insert_type_casts, is_trusted
from penstock.sql.types.int256 import int256_type, parse_int256_type
from penstock.sql.types.user_functions import NO_FUNCTIONS, UserFunctions


@dataclass(frozen=True, slots=True)
class WindowTime:
    """A start or end of a window: the window's input column, and its maximum lag behind that column in milliseconds."""

    over: InputColumn
    part: WindowPart
    behind_ms: int


@dataclass(frozen=True, slots=True)
class OutputAnalysis:
    """The result of analyzing the outputs. `columns` is None if the inputs do not determine them.

    `origins` has the input columns that each output is made from. `times` has the input column of each window, in the
    order of the text; `window_times` has the outputs that are times of windows. `operands` are types that the
    translation depends on.
    """

    columns: Columns | None = None
    origins: Mapping[str, Origins] = field(default_factory=dict)
    times: tuple[InputColumn | None, ...] = ()
    window_times: Mapping[str, WindowTime] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    """Problems that concern only some rows."""
    operands: Mapping[str, str] = field(default_factory=dict)
    uses: tuple[ColumnUse, ...] = ()
    """The input columns that filter, join or group rows."""


def analyze_outputs(
    query: Query,
    inputs: Mapping[str, Columns | None],
    answers: Mapping[str, str] = MappingProxyType({}),
    *,
    windowed: bool = True,
    functions: UserFunctions = NO_FUNCTIONS,
) -> OutputAnalysis:
    """Analyze the outputs of a query. `answers` has the result types of machine learning models, by name.

    `windowed=False` skips the search for windows, if the query is known to have none. `functions` are the user's own.
    """
    if problems := _untyped_problems(query, inputs, functions):
        return OutputAnalysis(problems=problems)
    taken = query.take_tree()
    mark_operands(taken)
    written = name_projections(taken)
    spelled = _spellings(written, inputs)
    written_names = [(e.output_name, offset_of(e)) for e in written.selects]
    schema = _schema(inputs, query.dialect)
    tree = qualify_tree(written, schema, query.dialect)
    if tree is None or not (scopes := traverse_scope(tree)):
        return OutputAnalysis()
    names = {
        n: None if columns is None else frozenset(c.name.casefold() for c in columns) for n, columns in inputs.items()
    }
    windows = index_windows(tree) if windowed else WindowIndex()
    times = tuple(_window_origin(made, windows, names) for made in windows.roots())
    if _has_open_outputs(tree):
        return OutputAnalysis(times=times)
    if problems := tuple(_unusable_outputs(tree, written_names)):
        return OutputAnalysis(times=times, problems=problems)
    if len(tree.named_selects) != len(_aligned_outputs(tree)):
        return OutputAnalysis(times=times)
    traced, used = trace_origins(scopes[-1], names), column_uses(scopes, names)
    insert_type_casts(tree, answers, functions)
    typed = annotate_types(tree, schema=schema, dialect=query.dialect)
    misused = annotate_int256(typed) if may_have_int256(query.text, inputs) else []
    types = _output_types(tree, typed, unchanged_columns(traced), inputs)
    known = KnownTypes(typed)
    doubts = tuple(find_mismatches(typed, known, in_flink=query.dialect is PROJECT))
    return OutputAnalysis(
        columns=tuple(Column(spelled.get(name, name), kind) for name, kind in types),
        origins={spelled.get(name, name): found for name, found in traced.items()},
        times=times,
        window_times={spelled.get(name, name): end for name, end in _window_outputs(tree, windows, names)},
        problems=(
            *wrong_arguments(typed, known, in_flink=query.dialect is PROJECT),
            *mistyped_arguments(typed, known, functions),
            *unordered_keys(typed, known),
            *(p for p in doubts if p.code != AS_NUMBER),
            *misused,
        ),
        notes=tuple(p for p in doubts if p.code == AS_NUMBER),
        operands=operand_kinds(typed, _operand_type),
        uses=used,
    )


def _untyped_problems(
    query: Query, inputs: Mapping[str, Columns | None], functions: UserFunctions
) -> tuple[Problem, ...]:
    """Return the problems that can be found without types."""
    scopes = traverse_scope(query.tree)
    taken = tuple(problem for scope in scopes for problem in window_name_clashes(scope, inputs))
    return taken or (
        *(problem for scope in scopes for problem in find_unresolved(scope, inputs)),
        *(problem for scope in scopes for problem in find_ungrouped(scope, inputs)),
        *misplaced_aggregates(query),
        *wrong_calls(query, functions),
        *find_unsupported(query),
        *nondeterministic_keys(query),
    )


def _schema(inputs: Mapping[str, Columns | None], dialect: Dialect) -> MappingSchema:
    known: dict[str, object] = {
        name: {c.name.casefold(): data_type(parse_int256_type(c.type) or c.type or "unknown") for c in columns}
        for name, columns in inputs.items()
        if columns is not None
    }
    return MappingSchema(known, dialect=dialect, normalize=False)


def _has_open_outputs(tree: exp.Query) -> bool:
    """Whether the number of outputs is not known: they have PIVOT, or a star over a table or the fields of a struct."""
    fields = [e for e in (projection.unalias() for projection in tree.selects) if isinstance(e, exp.Column | exp.Dot)]
    return tree.is_star or tree.find(exp.Pivot) is not None or any(e.find(exp.Star) is not None for e in fields)


def _output_types(
    tree: exp.Query, typed: exp.Expr, unchanged: Mapping[str, InputColumn], inputs: Mapping[str, Columns | None]
) -> Iterator[tuple[str, str | None]]:
    """Return the outputs and their types. A column that is passed on unchanged keeps its type."""
    given = {InputColumn(name, c.name.casefold()): c.type for name, columns in inputs.items() for c in columns or ()}
    makes_rows = tree.find(exp.Explode, exp.Posexplode, exp.Inline) is not None
    for name, same in zip(tree.named_selects, _aligned_outputs(typed), strict=True):
        if name in unchanged:
            yield name, given.get(unchanged[name])
        else:
            yield name, None if makes_rows else _shared_type(same)


def _window_origin(made: SelectWindow, windows: WindowIndex, known: KnownColumns) -> InputColumn | None:
    """Return the input column that a window is over; None if it is over an expression."""
    time = made.call.time
    return origin_of(time, windows.scopes[id(made.select)], known) if isinstance(time, exp.Column) else None


def _window_outputs(tree: exp.Query, windows: WindowIndex, known: KnownColumns) -> Iterator[tuple[str, WindowTime]]:
    """Return the outputs that are times of windows.

    Whole windows come in the order of their ends, but single rows may be behind by the size of the window. The start of
    a session is not included: a session may begin any time before others that ended earlier.
    """
    for name, column in windows.outputs.get(id(tree), {}).items():
        made = column.made
        origin = _window_origin(windows.root(made), windows, known)
        behind = 0 if column.closed else made.call.lengths.get("SIZE", 0)
        if origin is not None and not (made.call.kind == "SESSION" and column.part == "start"):
            yield name, WindowTime(origin, column.part, behind)


def _spellings(tree: exp.Query, inputs: Mapping[str, Columns | None]) -> dict[str, str]:
    """Map the lower-case names of outputs, which analysis uses, to the names as written."""
    spelled = {c.name.casefold(): c.name for columns in inputs.values() for c in columns or ()}
    spelled.update((e.output_name.casefold(), e.output_name) for e in tree.selects if e.output_name)
    return spelled


def _aligned_outputs(tree: exp.Expr) -> list[tuple[exp.Expr, ...]]:
    """Return each output with those of the other sides of a set operation. The shortest side is the limit."""
    if isinstance(tree, exp.SetOperation):
        return [
            (*a, *b)
            for a, b in zip(_aligned_outputs(tree.left.unnest()), _aligned_outputs(tree.right.unnest()), strict=False)
        ]
    return [(projection,) for projection in tree.selects] if isinstance(tree, exp.Query) else []


def _shared_type(same: tuple[exp.Expr, ...]) -> str | None:
    """Return the type of an output; None where the sides of a set operation differ, because Spark widens them."""
    kinds = {_computed_type(projection) for projection in same}
    return kinds.pop() if len(kinds) == 1 else None


def _computed_type(projection: exp.Expr) -> str | None:
    """Return the type of an output; None for most computed decimals, which Spark widens by its own rules."""
    expression = projection.unalias()
    if (number_type := int256_type(projection.type)) is not None:
        return number_type
    if projection.type is not None and projection.type.this is exp.DType.DECIMAL:
        return type_text(projection.type) if isinstance(expression, exp.Cast) else decimal_type(expression)
    return type_text(projection.type) if is_trusted(projection) else None


def _operand_type(operand: exp.Expr) -> str | None:
    """Return the type of an operand; for a decimal of unknown precision just `DECIMAL`.

    In HAVING the type is left to Spark if the text does not name the tables: another text would need another state.
    """
    if has_found_owner(operand):
        return None
    is_decimal = operand.type is not None and operand.type.this is exp.DType.DECIMAL
    return _computed_type(operand) or ("DECIMAL" if is_decimal else None)


def _unusable_outputs(tree: exp.Query, written: list[tuple[str, int]]) -> Iterator[Problem]:
    """Return two outputs of one name, or a set operation whose sides have different numbers of columns."""
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
