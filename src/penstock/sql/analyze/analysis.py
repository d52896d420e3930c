"""Analyze a query once the columns of its inputs are known. One pass returns plain values."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from sqlglot import exp
from sqlglot.errors import OptimizeError

from penstock.keyed.operators import Aggregate
from penstock.sql.analyze.column_lineage import ColumnUse, InputColumn, Origins
from penstock.sql.analyze.ml_calls import ModelCall, model_calls, name_models
from penstock.sql.analyze.operand_types import kinds_edit
from penstock.sql.analyze.output_schema import WindowTime, analyze_outputs
from penstock.sql.analyze.statefulness import Construct, Window, keyword_offset, root_windows, stateful_constructs
from penstock.sql.analyze.user_calls import called_functions, with_spark_names
from penstock.sql.analyze.window_columns import index_windows, window_misuses
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import PARSER_FAILURES, Problem, Query, bind_tables, has_subqueries, parse, tables
from penstock.sql.parse.window_calls import window_problems
from penstock.sql.rewrite.translate import name_projections
from penstock.sql.stateful.plan import plan_stages
from penstock.sql.stateful.stages import NO_LAG, Flow, FlowKind, JoinLag, OperatorStage
from penstock.sql.types.columns import Columns
from penstock.sql.types.user_functions import NO_FUNCTIONS, UserFunctions


@dataclass(frozen=True, slots=True)
class QueryAnalysis:
    """The result of analyzing a query. `sound` is False if the query could not be analyzed.

    `times` has the input column of each window, or None if the window is over an expression; `window_times` has the
    outputs that are ends of windows.
    """

    sound: bool
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    """Problems that concern only some rows."""
    constructs: tuple[Construct, ...] = ()
    windows: tuple[Window, ...] = ()
    times: tuple[InputColumn | None, ...] = ()
    columns: Columns | None = None
    origins: Mapping[str, Origins] = field(default_factory=dict)
    reads_once: bool = True
    """Whether every input row is read once: one table, no union, no windows."""
    passes_all: bool = False
    """Whether it is `SELECT *` over one table, which passes on all columns."""
    window_times: Mapping[str, WindowTime] = field(default_factory=dict)
    flow: FlowKind = "rows"
    """Whether its rows are append-only or a changelog."""
    change_key: tuple[str, ...] = ()
    """The outputs that are the key of changes, as far as the SQL determines it."""
    unbounded: tuple[tuple[str, int, str], ...] = ()
    """Constructs whose state grows for ever: name, offset, and what to do other than a time to live."""
    hindrance: Problem | None = None
    """The reason why a sound query cannot run as a stream."""
    corrects: bool = False
    """Whether late rows update the results of its windows."""
    asks: tuple[ModelCall, ...] = ()
    """The calls of machine learning models."""
    calls: tuple[str, ...] = ()
    """The user functions that it calls, in upper case."""
    lag: JoinLag = NO_LAG
    """How far the event times of its rows may lag behind those of its inputs."""
    keyed: bool = False
    """Whether keyed operators keep state for the query."""
    operands: Mapping[str, str] = field(default_factory=dict)
    """Types that the translation depends on; see `sql.analyze.operand_types`."""
    uses: tuple[ColumnUse, ...] = ()
    """The input columns that filter, join or group rows."""


def bind_query(
    sql: str,
    node_ids: Sequence[str],
    operands: Mapping[str, str] = MappingProxyType({}),
    functions: UserFunctions = NO_FUNCTIONS,
) -> Query:
    """Bind a model's SQL to its inputs and user functions. The SQL is parsed when the tree is first used."""
    query = name_models(bind_tables(Query(sql, PROJECT), {node_id.casefold(): node_id for node_id in node_ids}))
    return with_spark_names(query.with_edit(kinds_edit(operands)) if operands else query, functions)


def analyze_query(
    sql: str,
    inputs: Mapping[str, Columns | None],
    answers: Mapping[str, str],
    flows: Mapping[str, Flow] = MappingProxyType({}),
    ttl_ms: int | None = None,
    *,
    nested: bool = False,
    functions: UserFunctions = NO_FUNCTIONS,
) -> QueryAnalysis:
    """Analyze a model's SQL, which names inputs by their node ids. Unknown columns of an input are None.

    A `nested` query is read by other queries of the same stream. `functions` are those of the user.
    """
    try:
        lookups = {node_id.casefold() for node_id, flow in flows.items() if flow.static}
        found = _analyze_sql(sql, inputs, answers, lookups, functions)
        needs_stages = found.constructs or any(flow.kind != "rows" or flow.static for flow in flows.values())
        if found.sound and needs_stages and not found.problems and not any(c.hint for c in found.constructs):
            return _with_flow(found, sql, flows, ttl_ms, nested)
        return found
    except OptimizeError as error:
        twice = _TWICE.search(str(error))
        text = f"two tables are called `{twice[1]}`" if twice else "two tables have the same name"
        return QueryAnalysis(False, (Problem("sql-statement", text, hint="give each an alias with AS"),))
    except RecursionError:
        problem = Problem("sql-syntax", "the SQL is nested too deeply", hint="split it into several models")
        return QueryAnalysis(False, (problem,))
    except PARSER_FAILURES:
        return QueryAnalysis(False, (Problem("sql-syntax", "the SQL cannot be analyzed"),))


_TWICE: Final = re.compile(r"Alias already used: (\S+)")


def _analyze_sql(
    sql: str,
    inputs: Mapping[str, Columns | None],
    answers: Mapping[str, str],
    lookups: Collection[str],
    functions: UserFunctions,
) -> QueryAnalysis:
    parsed = parse(sql, PROJECT)
    if isinstance(parsed, Problem):
        return QueryAnalysis(False, (parsed,))
    known = {node_id.casefold(): node_id for node_id in inputs}
    read = tables(parsed)
    problems = []
    for table in read:
        if table.name.casefold() not in known:
            hint = f'write {{{{ source("{table.name}") }}}} or {{{{ ref("{table.name}") }}}}'
            text = f"`{table.name}` is read directly"
            problems.append(Problem("sql-unknown-table", text, table.offset, hint, table.name))
    if not known and not problems:
        problems.append(Problem("sql-statement", "the SELECT reads from nothing", 0, 'add FROM {{ source("name") }}'))
    windows = index_windows(parsed.tree)
    constructs, calls = stateful_constructs(parsed, windows, lookups), root_windows(windows)
    if problems:
        return QueryAnalysis(False, tuple(problems), constructs=constructs, windows=calls)
    if windows:
        problems += [*window_problems(parsed.tree), *window_misuses(windows)]
    once = len(read) == 1 and not calls
    passes_all = once and [type(e) for e in parsed.tree.selects] == [exp.Star] and not has_subqueries(parsed)
    asks, called = model_calls(parsed), called_functions(parsed, functions)
    bound = name_models(bind_tables(parsed, known))
    analysis = analyze_outputs(bound, inputs, answers, windowed=bool(windows), functions=functions)
    times = analysis.times if len(analysis.times) == len(calls) else (None,) * len(calls)
    return QueryAnalysis(
        sound=True,
        problems=(*problems, *analysis.problems),
        notes=analysis.notes,
        constructs=constructs,
        windows=calls,
        times=times,
        columns=analysis.columns,
        origins=analysis.origins,
        reads_once=once,
        passes_all=passes_all,
        window_times=analysis.window_times,
        asks=asks,
        calls=called,
        operands=analysis.operands,
        uses=analysis.uses,
    )


def _with_flow(
    found: QueryAnalysis, sql: str, flows: Mapping[str, Flow], ttl_ms: int | None, nested: bool
) -> QueryAnalysis:
    query = bind_query(sql, tuple(flows))
    tree = name_projections(query.take_tree())
    plan = plan_stages(tree, "", flows, flows, ttl_ms, nested=nested)
    problem = plan.problem
    operators = [stage.operator for stage in plan.stages if isinstance(stage, OperatorStage)]
    if problem is not None:
        problem = replace(problem, offset=keyword_offset(query, problem.subject, problem.offset))
    late = (replace(note, offset=keyword_offset(query, note.subject, note.offset)) for note in plan.notes)
    return replace(
        found,
        notes=(*found.notes, *late),
        flow=plan.flow.kind,
        change_key=plan.flow.key,
        unbounded=tuple((name, keyword_offset(query, name, at), hint) for name, at, hint in plan.unbounded),
        hindrance=problem,
        corrects=any(isinstance(operator, Aggregate) and operator.lateness_ms > 0 for operator in operators),
        keyed=bool(operators),
        lag=plan.lag,
    )
