"""Find column names that no input has, or that several inputs have."""

from collections import Counter
from collections.abc import Iterator, Mapping

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from penstock.errors import did_you_mean
from penstock.row_columns import OP
from penstock.sql.analyze.window_columns import is_window_table
from penstock.sql.parse.query import Problem, start_of
from penstock.sql.parse.window_calls import select_windows
from penstock.sql.parse.window_tvf import WINDOW_COLUMNS
from penstock.sql.types.columns import Columns


def find_unresolved(scope: Scope, inputs: Mapping[str, Columns | None]) -> Iterator[Problem]:
    """Report columns that none of the scope's sources has. A source with unknown columns may have any column."""
    sources = {alias.casefold(): _source_columns(source, inputs) for alias, source in _scope_sources(scope)}
    counts = {alias: Counter(map(str.casefold, columns or ())) for alias, columns in sources.items()}
    in_pattern = scope.expression.find(exp.MatchRecognize) is not None
    seen: set[tuple[str, str]] = set()
    for column in scope.columns:
        table = column.table.casefold()
        if (table, column.name) in seen:
            continue
        if isinstance(scope.expression, exp.Select) and column.parent_select is not scope.expression:
            continue  # belongs to a subquery, which is checked on its own
        if in_pattern and column.find_ancestor(exp.MatchRecognize) is not None:
            continue  # belongs to a row of the pattern; the construct is refused as a whole
        seen.add((table, column.name))
        if len(column.parts) > 2 and table not in sources:
            table = column.parts[0].name.casefold()  # a field of a field
            if table in sources:
                table = column.parts[1].name.casefold()
        if table and table not in sources:
            a_struct = any(columns is None or table in counts[alias] for alias, columns in sources.items())
            if not a_struct and not _is_outer_alias(table, scope):
                hint = did_you_mean(column.table, scope.sources, otherwise="inputs")
                yield _problem(column, f"there is no input `{column.table}`", hint, column.table)
            continue
        asked = [table] if table else list(sources)
        if any(sources[alias] is None for alias in asked):
            continue
        matches = sum(counts[alias][column.name.casefold()] for alias in asked)
        if matches == 1 or (table and matches) or _is_output_alias(column, scope) or _is_using_column(column, scope):
            continue
        if matches > 1:
            text = f"column `{column.name}` is in several inputs"
            yield _problem(column, text, "write the input's name before it", column.name)
        elif table or not scope.is_subquery:  # without a table it may be a column of the outer query
            candidates = [name for alias in asked for name in sources[alias] or ()]
            own = "changes have it already: remove it" if column.name == OP else None
            hint = own or did_you_mean(column.name, candidates, otherwise="columns")
            yield _problem(column, f"no input has a column `{column.name}`", hint, column.name)


def readable_names(scope: Scope, inputs: Mapping[str, Columns | None]) -> set[str] | None:
    """Return the lower-case names of all columns that a scope reads; None if a source is not known."""
    found = [_source_columns(source, inputs) for _, source in _scope_sources(scope)]
    if any(columns is None for columns in found):
        return None
    return {name.casefold() for columns in found for name in columns or ()}


def window_name_clashes(scope: Scope, inputs: Mapping[str, Columns | None]) -> Iterator[Problem]:
    """Report a window over a table that already has one of the columns that the window adds."""
    select = scope.expression
    if isinstance(select, exp.Select) and is_window_table(select) and (made := select_windows(select)):
        found = (_source_columns(source, inputs) or () for _, source in _scope_sources(scope))
        read = {name.casefold() for columns in found for name in columns}
        if taken := [f"`{name}`" for name in WINDOW_COLUMNS if name in read]:
            text = f"a window adds {', '.join(taken)}, and its input already has that column"
            yield Problem("window-invalid", text, start_of(made[0].node), "give it another name there, with AS")


def _scope_sources(scope: Scope) -> Iterator[tuple[str, exp.Expr | Scope]]:
    """Return the sources that the scope reads, by alias. Visible CTEs that are not read are not included."""
    selected = scope.selected_sources
    return ((alias, source) for alias, (_, source) in selected.items()) if selected else iter(scope.sources.items())


def _problem(column: exp.Column, text: str, hint: str | None, subject: str) -> Problem:
    return Problem("sql-unknown-column", text, column.this.meta.get("start", 0), hint, subject)


def _source_columns(source: exp.Expr | Scope, inputs: Mapping[str, Columns | None]) -> list[str] | None:
    if isinstance(source, exp.Table):
        columns = inputs.get(source.name)
        return None if columns is None else [c.name for c in columns]
    if isinstance(source, Scope) and isinstance(source.expression, exp.Query):
        named = getattr(source.expression.parent, "alias_column_names", None)
        return list(named) if named else _output_names(source, inputs)
    return None


def _output_names(scope: Scope, inputs: Mapping[str, Columns | None]) -> list[str] | None:
    """Return the outputs of a subquery or CTE, with stars expanded; None if a star's source is not known."""
    if isinstance(scope.expression, exp.SetOperation):
        return _output_names(scope.set_operation_scopes[0], inputs) if scope.set_operation_scopes else None
    names: list[str] = []
    selects: list[exp.Expr] = getattr(scope.expression, "selects", [])
    for projection in selects:
        if not projection.is_star:
            names.append(projection.alias_or_name)
            continue
        table = projection.table.casefold() if isinstance(projection, exp.Column) else None
        for alias, source in _scope_sources(scope):
            if table is None or alias.casefold() == table:
                columns = _source_columns(source, inputs)
                if columns is None:
                    return None
                names.extend(columns)
    return names


def _is_outer_alias(alias: str, scope: Scope) -> bool:
    """Whether an alias belongs to an outer query."""
    parent = scope.parent
    if parent is None:
        return False
    return alias in {name.casefold() for name in parent.sources} or _is_outer_alias(alias, parent)


def _is_using_column(column: exp.Column, scope: Scope) -> bool:
    """Whether JOIN … USING merges the column of both sides."""
    joins = scope.expression.args.get("joins") or ()
    return any(column.name.casefold() == i.name.casefold() for join in joins for i in join.args.get("using") or ())


def _is_output_alias(column: exp.Column, scope: Scope) -> bool:
    """Whether a plain name refers to an output. GROUP BY, HAVING and ORDER BY allow that, WHERE does not."""
    select = scope.expression
    if column.table or not isinstance(select, exp.Select):
        return False
    aliases = [e for e in select.expressions if isinstance(e, exp.Alias)]
    same = [e for e in aliases if e.alias.casefold() == column.name.casefold()]
    if not same:
        return False
    later = select.expressions[select.expressions.index(same[0]) + 1 :]
    if any(column is found for e in later for found in e.find_all(exp.Column)):
        return True  # an output may refer to an earlier one
    clauses = (select.args.get(name) for name in ("group", "having", "order"))
    return any(column is found for clause in clauses if clause is not None for found in clause.find_all(exp.Column))
