"""Rewrite windows to Spark's form: one column with a start and an end, by which Spark tracks event time.

A SELECT that groups by the start and end of a window, or makes a window over the time of another window, needs that
column from its input. It is forwarded there under a name that starts with `_window`, and is never among the outputs.
"""

from collections import defaultdict
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.window_columns import (
    SelectWindow,
    WindowIndex,
    index_windows,
    is_same_alias,
    output_stars,
    select_sources,
)
from penstock.sql.parse.window_calls import UNITS, WindowCall, WindowPart, last_moment, milliseconds, own_calls, unit_of
from penstock.sql.rewrite import templates
from penstock.sql.rewrite.distinct import expand_distinct

FORWARDED: Final = "_window"


def rewrite_windows(tree: exp.Query, time: str | None = None) -> exp.Query:
    """Rewrite TUMBLE, HOP, SESSION and CUMULATE to `window` and `session_window`.

    `time` is an output with the time of a window that must stay event time for Spark, because other views read it.
    """
    windows = index_windows(tree)
    if not windows.made:
        return tree
    work = _WindowRewriter(windows)
    last = tree if isinstance(tree, exp.Select) else None
    kept = windows.outputs.get(id(last), {}).get(time.casefold()) if last is not None and time else None
    if kept is not None and last is not None:
        work.wanted[id(last)].add(kept.made)
    for scope in reversed(windows.scopes.values()):  # readers come before their inputs
        assert isinstance(scope.expression, exp.Select)
        work.rewrite(scope.expression)
    work.hide_forwarded()
    return tree if kept is None or time is None else _with_time(tree, time, work.names[kept.made])


class _WindowRewriter:
    """Rewrite the SELECTs of a query, readers first. `wanted` has the windows that each SELECT must forward."""

    def __init__(self, windows: WindowIndex) -> None:
        self.windows = windows
        self.wanted: defaultdict[int, set[SelectWindow]] = defaultdict(set)
        self.names = {
            made: FORWARDED if place == 1 else f"{FORWARDED}_{place}"
            for place, made in enumerate(windows.made.values(), start=1)
        }

    def rewrite(self, select: exp.Select) -> None:
        made, grouped = self.windows.made.get(id(select)), self.windows.groups.get(id(select))
        if made is not None or grouped is not None:
            expand_distinct(select)
        forwarded = self._forwarded_windows(select)
        self._rewrite_join(select)
        if grouped is not None:
            self._rewrite_group(select, grouped)
        if made is not None:
            self._rewrite_window(select, made)
        for column in forwarded:
            select.append("expressions", column)

    def hide_forwarded(self) -> None:
        """Exclude forwarded windows from stars, except those that the SELECT itself must forward."""
        for own, scope in self.windows.scopes.items():
            select = scope.expression
            assert isinstance(select, exp.Select)
            for star, table in output_stars(select):
                given = [s for alias, s in select_sources(scope).items() if is_same_alias(table, alias)]
                if forwarded := {m for s in given for m in self.wanted[id(s)]} - self.wanted[own]:
                    _exclude_columns(star, sorted(self.names[m] for m in forwarded))

    def _forwarded_windows(self, select: exp.Select) -> list[exp.Expr]:
        """Return the windows of inputs that a SELECT must forward and that none of its stars passes on."""
        own = {self.windows.made.get(id(select))}
        found: list[exp.Expr] = []
        for made in sorted(self.wanted[id(select)] - own, key=self.names.__getitem__):
            alias = self._window_input(select, made)
            column = self._forwarded_column(select, made, alias)
            if not any(is_same_alias(table, alias) for _, table in output_stars(select)):
                found.append(column)
        return found

    def _window_input(self, select: exp.Select, made: SelectWindow) -> str:
        """Return the input from which a SELECT gets the columns of a window."""
        given = select_sources(self.windows.scopes[id(select)]).items()
        named = [found.alias for found in self.windows.used[id(select)] if found.column.made is made]
        having = (a for a, s in given if any(c.made is made for c in self.windows.outputs[id(s)].values()))
        return named[0] if named else next(having)

    def _forwarded_column(self, select: exp.Select, made: SelectWindow, alias: str) -> exp.Column:
        """Return the window as a column of an input, and make that input forward it."""
        self.wanted[id(select_sources(self.windows.scopes[id(select)])[alias])].add(made)
        return exp.column(self.names[made], table=alias or None, quoted=True)

    def _rewrite_join(self, select: exp.Select) -> None:
        """Join equal windows by the window column too, so that Spark can drop the state of windows that are over."""
        ends = {id(found.node): found for found in self.windows.used[id(select)]}
        for join in select.args.get("joins") or ():
            condition = join.args.get("on")
            pairs: defaultdict[tuple[str, str], dict[WindowPart, tuple[SelectWindow, SelectWindow]]] = defaultdict(dict)
            for equal in condition.flatten() if isinstance(condition, exp.And) else ():
                sides = [ends.get(id(equal.args.get(side))) for side in ("this", "expression")]
                found = sorted((side for side in sides if side is not None), key=lambda side: side.alias)
                if isinstance(equal, exp.EQ) and len(found) == 2 and found[0].column.part == found[1].column.part:
                    part = found[0].column.part
                    pairs[found[0].alias, found[1].alias][part] = found[0].column.made, found[1].column.made
            for (alias, other_alias), parts in pairs.items():
                made, other = parts.get("end", (None, None))
                if "start" in parts and made and other and made is not other and made.call.is_same_shape(other.call):
                    one, two = (
                        self._forwarded_column(select, made, alias),
                        self._forwarded_column(select, other, other_alias),
                    )
                    join.set("on", exp.and_(condition, exp.EQ(this=one, expression=two), copy=False))

    def _rewrite_group(self, select: exp.Select, made: SelectWindow) -> None:
        """Group by the window column instead of its start and end, and derive these from it."""
        forwarded = self._forwarded_column(select, made, self._window_input(select, made))
        group = select.args["group"]
        ends = {id(f.node): f.column for f in self.windows.used[id(select)] if f.column.made is made}
        named = {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias) and id(e.this) in ends}
        rest = [
            e
            for e in group.expressions
            if id(e) not in ends and not (isinstance(e, exp.Column) and not e.table and e.name.casefold() in named)
        ]
        needs_key = made.call.kind == "SESSION" and not rest
        more = [_hidden_constant(_window_field(forwarded, "end"))] if needs_key else []
        for found in self.windows.used[id(select)]:
            if found.column.made is made and not any(found.node is e for e in group.expressions):
                _replace_value(found.node, _end_time(made.call, forwarded, found.column.part))
        group.set("expressions", [*rest, forwarded.copy(), *more])

    def _rewrite_window(self, select: exp.Select, made: SelectWindow) -> None:
        call, over = made.call, self.windows.over(made)
        assert call.time is not None
        plain = call.time.copy()
        if over is not None:
            column = self._forwarded_column(select, over.column.made, over.alias)
            for other in own_calls(select):
                if other.time is not None and other.is_of(call):
                    time = templates.call("window_time", column.copy())
                    other.node.set("expressions", [time, *other.node.expressions[1:]])
        whole = _spark_call(call)
        if call.kind == "CUMULATE":
            self._rewrite_cumulate(select, made, whole, plain)
            return
        grouped = select.args.get("group") is not None
        lonely = call.kind == "SESSION" and grouped and len(select.args["group"].expressions) == 1
        for other in own_calls(select):
            _replace_value(other.node, whole.copy() if other.part is None else _end_time(other, whole, other.part))
        if lonely:
            select.args["group"].append("expressions", _hidden_constant(plain))
        if made in self.wanted[id(select)]:
            select.append("expressions", exp.alias_(whole.copy(), self.names[made], quoted=True))

    def _rewrite_cumulate(self, select: exp.Select, made: SelectWindow, whole: exp.Expr, time: exp.Expr) -> None:
        """Rewrite CUMULATE as windows that slide by the step, each cut off at the start of its largest window."""
        name = self.names[made]
        forwarded = exp.column(name, quoted=True)
        inner = exp.Select(expressions=[exp.Star(), exp.alias_(whole, name, quoted=True)])
        inner.set("from_", select.args["from_"].copy())
        start = _end_time(made.call, forwarded, "start")
        for other in own_calls(select):
            assert other.part is not None
            _replace_value(other.node, _end_time(made.call, forwarded, other.part))
        select.set("from_", exp.From(this=inner.subquery(copy=False)))
        select.set("where", exp.Where(this=exp.GTE(this=time, expression=start)))
        if made not in self.wanted[id(select)]:
            for outer, _ in output_stars(select):
                _exclude_columns(outer, [name])


def _with_time(tree: exp.Query, time: str, forwarded: str) -> exp.Query:
    """Select the rows with the time of their window as event time for Spark."""
    rows = tree.subquery("_windows", copy=False)
    star = exp.Star()
    _exclude_columns(star, [forwarded, time])
    value = exp.alias_(templates.call("window_time", exp.column(forwarded, quoted=True)), time, quoted=True)
    return exp.Select(expressions=[star, value]).from_(rows, copy=False)


def _spark_call(call: WindowCall) -> exp.Expr:
    lengths, spans = call.lengths, call.spans
    assert call.time is not None
    time = call.time.copy()
    if call.kind == "SESSION":
        return templates.call("session_window", time, _duration_text(spans["GAP"]))
    size, slide = spans["SIZE"], spans[{"TUMBLE": "SIZE", "HOP": "SLIDE", "CUMULATE": "STEP"}[call.kind]]
    offset = lengths.get("OFFSET", 0) % (milliseconds(slide) or 1)
    arguments = [time, _duration_text(size)]
    if call.kind != "TUMBLE" or offset:
        arguments.append(_duration_text(slide))
    if offset:
        arguments.append(exp.Literal.string(f"{offset} millisecond"))
    return templates.call("window", *arguments)


def _end_time(call: WindowCall, window: exp.Expr, part: WindowPart) -> exp.Expr:
    """Build the start, the end or the time of a window."""
    match part:
        case "start" if call.kind == "CUMULATE":
            size, offset = call.lengths["SIZE"], call.lengths.get("OFFSET", 0) % call.lengths["SIZE"]
            end = templates.call("unix_millis", _window_field(window, "end"))
            last = exp.Sub(this=end, expression=exp.Literal.number(1))
            since = exp.Sub(this=last.copy(), expression=exp.Literal.number(offset)) if offset else last.copy()
            into = templates.call("pmod", since, exp.Literal.number(size))
            return templates.call("timestamp_millis", exp.Sub(this=last, expression=into))
        case "time":
            return last_moment(_window_field(window, "end"))
        case _:
            return _window_field(window, part)


def _hidden_constant(time: exp.Expr) -> exp.Expr:
    """Build a zero that Spark does not recognise: sessions need a key, and it removes constants from the keys."""
    return templates.call("pmod", templates.call("unix_micros", time.copy()), exp.Literal.number(1))


def _duration_text(interval: exp.Expr) -> exp.Expr:
    """Convert `INTERVAL '15' MINUTE` to the string that Spark's window functions accept."""
    if isinstance(interval, exp.Interval) and interval.this.name.isdigit() and (unit := unit_of(interval)) in UNITS:
        return exp.Literal.string(f"{interval.this.name} {unit.lower()}")
    length = milliseconds(interval)
    return interval.copy() if length is None else exp.Literal.string(f"{length} millisecond")


def _replace_value(node: exp.Expr, value: exp.Expr) -> None:
    """Replace a column or call by a value. An output keeps its name."""
    if isinstance(node, exp.Column) and isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        value = exp.alias_(value, node.name, quoted=True)
    node.replace(value)


def _exclude_columns(star: exp.Star, names: list[str]) -> None:
    hidden = [*(star.args.get("except_") or ()), *(exp.to_identifier(name, quoted=True) for name in names)]
    star.set("except_", hidden)


def _window_field(window: exp.Expr, name: str) -> exp.Expr:
    return exp.Dot(this=window.copy(), expression=exp.to_identifier(name))
