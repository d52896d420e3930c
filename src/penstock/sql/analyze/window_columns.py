"""Trace the start, end and time columns of windows through subqueries, and find the SELECTs grouped by them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from penstock.sql.parse.query import Problem, offset_of, start_of
from penstock.sql.parse.window_calls import WindowCall, WindowPart, has_windows, parse_window_call, select_windows


@dataclass(frozen=True, slots=True, eq=False)
class SelectWindow:
    """A window, and the SELECT that makes it: for groups, or for single rows."""

    call: WindowCall
    select: exp.Select

    @property
    def of_rows(self) -> bool:
        return self.call.part is not None


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """A column that is the start, the end or the time of a window. `closed`: whole windows arrive, not single rows."""

    made: SelectWindow
    part: WindowPart
    closed: bool


_WindowColumns: TypeAlias = dict[str, WindowColumn]


@dataclass(frozen=True, slots=True)
class WindowColumnUse:
    """A use of a window column in a SELECT, with the alias of the input that has the column."""

    node: exp.Column
    alias: str
    column: WindowColumn


@dataclass(slots=True)
class WindowIndex:
    """The windows of a tree, by the `id` of a SELECT.

    `made` has the window that the SELECT makes, `outputs` its outputs that are window columns, `used` the window
    columns in it, `groups` the window whose start and end it groups by, and `half` a key that is only one bound of a
    window.
    """

    scopes: dict[int, Scope] = field(default_factory=dict)
    made: dict[int, SelectWindow] = field(default_factory=dict)
    outputs: dict[int, _WindowColumns] = field(default_factory=dict)
    used: dict[int, list[WindowColumnUse]] = field(default_factory=dict)
    groups: dict[int, SelectWindow] = field(default_factory=dict)
    half: dict[int, WindowColumnUse] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether the tree has windows."""
        return bool(self.scopes)

    def over(self, made: SelectWindow) -> WindowColumnUse | None:
        """Return the column of another window that a window is over; None if it is over an ordinary column."""
        time = made.call.time
        return next((f for f in self.used.get(id(made.select), ()) if f.node is time), None)

    def root(self, made: SelectWindow) -> SelectWindow:
        """Return the first window in a chain of windows over windows."""
        found = self.over(made)
        return made if found is None else self.root(found.column.made)

    def roots(self) -> list[SelectWindow]:
        """Return the windows that are not over another window, in the order of the text."""
        found = [made for made in self.made.values() if self.over(made) is None]
        return sorted(found, key=lambda made: offset_of(made.call.node))


def index_windows(tree: exp.Expr) -> WindowIndex:
    windows = WindowIndex()
    if has_windows(tree):
        for scope in traverse_scope(tree):
            if isinstance(scope.expression, exp.Select):
                _index_select(scope, scope.expression, windows)
    return windows


def select_sources(scope: Scope) -> dict[str, exp.Select]:
    """Return the SELECTs that this one reads, by alias."""
    found = {alias: source for alias, (_, source) in scope.selected_sources.items() if isinstance(source, Scope)}
    return {alias: s.expression for alias, s in found.items() if isinstance(s.expression, exp.Select)}


def output_stars(select: exp.Select) -> list[tuple[exp.Star, str | None]]:
    """Return the stars in the outputs, each with the alias before it."""
    found: list[tuple[exp.Star, str | None]] = []
    for projection in select.expressions:
        if isinstance(projection, exp.Star):
            found.append((projection, None))
        elif isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
            found.append((projection.this, projection.table))
    return found


def is_same_alias(alias: str | None, other: str) -> bool:
    """Whether an alias, if it is given, equals the other one."""
    return alias is None or alias.casefold() == other.casefold()


def _index_select(scope: Scope, select: exp.Select, windows: WindowIndex) -> None:
    own = id(select)
    windows.scopes[own] = scope
    given = {alias: windows.outputs.get(id(source), {}) for alias, source in select_sources(scope).items()}
    windows.used[own] = [
        WindowColumnUse(node, alias, columns[name])
        for node in select.find_all(exp.Column)
        if node.parent_select is select
        for alias, columns in given.items()
        if is_same_alias(node.table or None, alias) and (name := node.name.casefold()) in columns
    ]
    if makes := select_windows(select):
        windows.made[own] = SelectWindow(makes[0], select)
    elif select.args.get("group") is not None:
        _index_group(select, windows)
    windows.outputs[own] = dict(_window_outputs(select, given, windows))


def _index_group(select: exp.Select, windows: WindowIndex) -> None:
    """Index the window that a SELECT groups by. GROUP BY must have both its start and its end."""
    keys = _window_keys(select, windows.used[id(select)])
    for key in keys:
        if {"start", "end"} <= {other.column.part for other in keys if other.column.made is key.column.made}:
            windows.groups[id(select)] = key.column.made
            return
    if keys:
        windows.half[id(select)] = keys[0]


def _window_keys(select: exp.Select, used: Sequence[WindowColumnUse]) -> list[WindowColumnUse]:
    """Return the window columns in GROUP BY, also those under the name of an output."""
    nodes = list(select.args["group"].expressions)
    named = {e.alias.casefold(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    nodes += [named[n.name.casefold()] for n in nodes if isinstance(n, exp.Column) and n.name.casefold() in named]
    return [found for found in used if any(found.node is node for node in nodes)]


def _window_outputs(
    select: exp.Select, given: Mapping[str, _WindowColumns], windows: WindowIndex
) -> Iterator[tuple[str, WindowColumn]]:
    made, grouped = windows.made.get(id(select)), windows.groups.get(id(select))
    aggregates = select.args.get("group") is not None
    ends = {id(found.node): found.column for found in windows.used[id(select)]}
    for _, table in output_stars(select):
        for alias, columns in given.items():
            if is_same_alias(table, alias):
                yield from columns.items()
    for projection in select.expressions:
        name, expression = projection.alias_or_name.casefold(), projection.unalias()
        call = parse_window_call(expression)
        if made is not None and call is not None and call.part is not None and call.is_of(made.call):
            yield name, WindowColumn(made, call.part, aggregates)
        elif (column := ends.get(id(expression))) is not None and not aggregates:
            yield name, column
        elif column is not None and column.made is grouped:
            yield name, WindowColumn(column.made, column.part, True)


# Mistakes


def window_misuses(windows: WindowIndex) -> Iterator[Problem]:
    """Report valid windows in places where they cannot be used."""
    for found in windows.half.values():
        text = f"GROUP BY has `{found.node.name}`, which is only one end of a window"
        yield Problem("window-invalid", text, start_of(found.node), "group by the start and the end of the window")
    for made in windows.made.values():
        over = windows.over(made)
        if over is not None and over.column.part != "time":
            text = f"`{over.node.name}` is the {over.column.part} of a window, and no event time in this model"
            hint = "use the time of the window: `window_time`, or a function whose name ends in _ROWTIME"
            yield Problem("window-without-event-time", text, start_of(over.node), hint, over.node.name)
        if made.call.kind == "CUMULATE" and not is_window_table(made.select):
            hint = "write it as a table: FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), step, size))"
            yield Problem("window-invalid", "CUMULATE makes windows of tables only", start_of(made.call.node), hint)
        if made.call.kind == "HOP" and made.of_rows and not is_window_table(made.select):
            text = "HOP puts a row into several windows, and the query does not group by them"
            hint = "add HOP(…) to GROUP BY, or read FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), slide, size))"
            yield Problem("window-invalid", text, start_of(made.call.node), hint)
        if made.call.kind == "SESSION" and made.of_rows:
            yield from _session_misuses(made, windows)


def is_window_table(select: exp.Select) -> bool:
    """Whether a SELECT only adds a window to all columns of its input."""
    clauses = {name for name, value in select.args.items() if value}
    return clauses <= {"expressions", "from_", "kind"} and isinstance(select.expressions[0], exp.Star)


def _session_misuses(made: SelectWindow, windows: WindowIndex) -> Iterator[Problem]:
    """Report session windows of single rows: a session is only known when its rows are grouped."""
    place = start_of(made.call.node)
    scopes = windows.scopes.values()
    readers = [scope for scope in scopes if any(s is made.select for s in select_sources(scope).values())]
    if not readers or any(windows.groups.get(id(scope.expression)) is not made for scope in readers):
        text = "rows have no session before they are grouped"
        yield Problem("window-invalid", text, place, "group by window_start and window_end")
        return
    wanted = {key.name.casefold() for key in made.call.keys}
    for scope in readers:
        ends = [found.node for found in windows.used[id(scope.expression)]]
        rest = [e for e in scope.expression.args["group"].expressions if not any(e is end for end in ends)]
        if {key.name.casefold() for key in rest} != wanted:
            keys = ", ".join(key.sql() for key in rest)
            text = "PARTITION BY of the session and GROUP BY have different columns"
            hint = f"write PARTITION BY {keys} behind the table" if keys else "group by the columns of PARTITION BY too"
            yield Problem("window-invalid", text, place, hint)
