"""Windows as Spark has them: one column of a start and an end, which is what Spark watches time by.

A SELECT that groups by the ends of a window, or makes a window over the time of another, needs that column from what
it reads. It is carried up to there under a name that starts with `_window`, and is never among the outputs.
"""

from collections import defaultdict
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.window_columns import Followed, Made, follow, is_same, sources, stars
from penstock.sql.parse.window_calls import UNITS, Call, Part, last_moment, milliseconds, own_calls, unit_of
from penstock.sql.rewrite import templates
from penstock.sql.rewrite.distinct import spell_out_distinct

CARRIED: Final = "_window"


def spark_windows(tree: exp.Query, time: str | None = None) -> exp.Query:
    """TUMBLE, HOP, SESSION and CUMULATE become `window` and `session_window`.

    `time` is an output that is the time of a window, and is to be one for Spark too: for a view that others read.
    """
    followed = follow(tree)
    if not followed.made:
        return tree
    work = _Work(followed)
    last = tree if isinstance(tree, exp.Select) else None
    kept = followed.outputs.get(id(last), {}).get(time.casefold()) if last is not None and time else None
    if kept is not None and last is not None:
        work.wanted[id(last)].add(kept.made)
    for scope in reversed(followed.scopes.values()):  # readers come before what they read
        assert isinstance(scope.expression, exp.Select)
        work.rewrite(scope.expression)
    work.hide()
    return tree if kept is None or time is None else _with_time(tree, time, work.names[kept.made])


class _Work:
    """What is wanted of each SELECT while readers are rewritten: the windows that it must carry."""

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.wanted: defaultdict[int, set[Made]] = defaultdict(set)
        self.names = {
            made: CARRIED if place == 1 else f"{CARRIED}_{place}"
            for place, made in enumerate(followed.made.values(), start=1)
        }

    def rewrite(self, select: exp.Select) -> None:
        made, grouped = self.followed.made.get(id(select)), self.followed.groups.get(id(select))
        if made is not None or grouped is not None:
            spell_out_distinct(select)
        carried = self._passed_on(select)
        self._join(select)
        if grouped is not None:
            self._group(select, grouped)
        if made is not None:
            self._make(select, made)
        for column in carried:
            select.append("expressions", column)

    def hide(self) -> None:
        """A star hands on what it must, and nothing else that is carried."""
        for own, scope in self.followed.scopes.items():
            select = scope.expression
            assert isinstance(select, exp.Select)
            for star, table in stars(select):
                given = [s for alias, s in sources(scope).items() if is_same(table, alias)]
                carried = {m for s in given for m in self.wanted[id(s)]} - self.wanted[own]
                if carried:
                    names = sorted(self.names[m] for m in carried)
                    _except(star, names)

    def _passed_on(self, select: exp.Select) -> list[exp.Expr]:
        """The windows of others that are wanted of a SELECT, and that no star of it hands on."""
        own = {self.followed.made.get(id(select))}
        found: list[exp.Expr] = []
        for made in sorted(self.wanted[id(select)] - own, key=self.names.__getitem__):
            alias = self._giver(select, made)
            column = self._column(select, made, alias)
            if not any(is_same(table, alias) for _, table in stars(select)):
                found.append(column)
        return found

    def _giver(self, select: exp.Select, made: Made) -> str:
        """The input that a SELECT has the ends of a window from."""
        given = sources(self.followed.scopes[id(select)]).items()
        named = [found.alias for found in self.followed.used[id(select)] if found.column.made is made]
        having = (a for a, s in given if any(c.made is made for c in self.followed.outputs[id(s)].values()))
        return named[0] if named else next(having)

    def _column(self, select: exp.Select, made: Made, alias: str) -> exp.Column:
        """The window as a column of an input, which from now on is to carry it."""
        self.wanted[id(sources(self.followed.scopes[id(select)])[alias])].add(made)
        return exp.column(self.names[made], table=alias or None, quoted=True)

    def _join(self, select: exp.Select) -> None:
        """A join of equal windows is one by the window as well, so that Spark can forget those that are over."""
        ends = {id(found.node): found for found in self.followed.used[id(select)]}
        for join in select.args.get("joins") or ():
            condition = join.args.get("on")
            pairs: defaultdict[tuple[str, str], dict[Part, tuple[Made, Made]]] = defaultdict(dict)
            for equal in condition.flatten() if isinstance(condition, exp.And) else ():
                sides = [ends.get(id(equal.args.get(side))) for side in ("this", "expression")]
                found = sorted((side for side in sides if side is not None), key=lambda side: side.alias)
                if isinstance(equal, exp.EQ) and len(found) == 2 and found[0].column.part == found[1].column.part:
                    part = found[0].column.part
                    pairs[found[0].alias, found[1].alias][part] = found[0].column.made, found[1].column.made
            for (alias, other_alias), parts in pairs.items():
                made, other = parts.get("end", (None, None))
                if "start" in parts and made and other and made is not other and made.call.is_like(other.call):
                    one, two = self._column(select, made, alias), self._column(select, other, other_alias)
                    join.set("on", exp.and_(condition, exp.EQ(this=one, expression=two), copy=False))

    def _group(self, select: exp.Select, made: Made) -> None:
        """By the window in place of its ends; they are said from the window."""
        carried = self._column(select, made, self._giver(select, made))
        group = select.args["group"]
        ends = {id(f.node): f.column for f in self.followed.used[id(select)] if f.column.made is made}
        named = {e.alias.casefold() for e in select.expressions if isinstance(e, exp.Alias) and id(e.this) in ends}
        rest = [
            e
            for e in group.expressions
            if id(e) not in ends and not (isinstance(e, exp.Column) and not e.table and e.name.casefold() in named)
        ]
        everything = [_constant(_field(carried, "end"))] if made.call.kind == "SESSION" and not rest else []
        for found in self.followed.used[id(select)]:
            if found.column.made is made and not any(found.node is e for e in group.expressions):
                _replace(found.node, _end(made.call, carried, found.column.part))
        group.set("expressions", [*rest, carried.copy(), *everything])

    def _make(self, select: exp.Select, made: Made) -> None:
        call, over = made.call, self.followed.over(made)
        assert call.time is not None
        plain = call.time.copy()
        if over is not None:
            column = self._column(select, over.column.made, over.alias)
            for other in own_calls(select):
                if other.time is not None and other.is_of(call):
                    other.node.set(
                        "expressions", [templates.call("window_time", column.copy()), *other.node.expressions[1:]]
                    )
        whole = _spark_call(call)
        if call.kind == "CUMULATE":
            self._accumulate(select, made, whole, plain)
            return
        grouped = select.args.get("group") is not None
        lonely = call.kind == "SESSION" and grouped and len(select.args["group"].expressions) == 1
        for other in own_calls(select):
            _replace(other.node, whole.copy() if other.part is None else _end(other, whole, other.part))
        if lonely:
            select.args["group"].append("expressions", _constant(plain))
        if made in self.wanted[id(select)]:
            select.append("expressions", exp.alias_(whole.copy(), self.names[made], quoted=True))

    def _accumulate(self, select: exp.Select, made: Made, whole: exp.Expr, time: exp.Expr) -> None:
        """Windows that slide by the step, each cut off at the start of the largest window that it ends in."""
        name = self.names[made]
        carried = exp.column(name, quoted=True)
        star = exp.Star()
        inner = exp.Select(expressions=[star, exp.alias_(whole, name, quoted=True)])
        inner.set("from_", select.args["from_"].copy())
        start = _end(made.call, carried, "start")
        for other in own_calls(select):
            assert other.part is not None
            _replace(other.node, _end(made.call, carried, other.part))
        select.set("from_", exp.From(this=inner.subquery(copy=False)))
        select.set("where", exp.Where(this=exp.GTE(this=time, expression=start)))
        if made not in self.wanted[id(select)]:
            for outer, _ in stars(select):
                _except(outer, [name])


def _with_time(tree: exp.Query, time: str, carried: str) -> exp.Query:
    """The rows with the time of their window as Spark knows it."""
    rows = tree.subquery("_windows", copy=False)
    star = exp.Star()
    _except(star, [carried, time])
    value = exp.alias_(templates.call("window_time", exp.column(carried, quoted=True)), time, quoted=True)
    return exp.Select(expressions=[star, value]).from_(rows, copy=False)


def _spark_call(call: Call) -> exp.Expr:
    lengths, spans = call.lengths, call.spans
    assert call.time is not None
    time = call.time.copy()
    match call.kind:
        case "SESSION":
            return templates.call("session_window", time, _span(spans["GAP"]))
        case "TUMBLE":
            size, slide = spans["SIZE"], spans["SIZE"]
        case "HOP":
            size, slide = spans["SIZE"], spans["SLIDE"]
        case _:
            size, slide = spans["SIZE"], spans["STEP"]
    offset = lengths.get("OFFSET", 0) % (milliseconds(slide) or 1)
    arguments = [time, _span(size)]
    if call.kind != "TUMBLE" or offset:
        arguments.append(_span(slide))
    if offset:
        arguments.append(exp.Literal.string(f"{offset} millisecond"))
    return templates.call("window", *arguments)


def _end(call: Call, window: exp.Expr, part: Part) -> exp.Expr:
    """An end of a window as a time."""
    match part:
        case "start" if call.kind == "CUMULATE":
            size, offset = call.lengths["SIZE"], call.lengths.get("OFFSET", 0) % call.lengths["SIZE"]
            last = exp.Sub(this=templates.call("unix_millis", _field(window, "end")), expression=exp.Literal.number(1))
            since: exp.Expr = (
                exp.Sub(this=last.copy(), expression=exp.Literal.number(offset)) if offset else last.copy()
            )
            into = templates.call("pmod", since, exp.Literal.number(size))
            return templates.call("timestamp_millis", exp.Sub(this=last, expression=into))
        case "time":
            return last_moment(_field(window, "end"))
        case _:
            return _field(window, part)


def _constant(time: exp.Expr) -> exp.Expr:
    """Zero, and Spark does not know it: sessions need a key, and a constant is taken out of the keys."""
    return templates.call("pmod", templates.call("unix_micros", time.copy()), exp.Literal.number(1))


def _span(interval: exp.Expr) -> exp.Expr:
    """`INTERVAL '15' MINUTE` as the text that Spark's window functions take."""
    if isinstance(interval, exp.Interval) and interval.this.name.isdigit() and (unit := unit_of(interval)) in UNITS:
        return exp.Literal.string(f"{interval.this.name} {unit.lower()}")
    length = milliseconds(interval)
    return interval.copy() if length is None else exp.Literal.string(f"{length} millisecond")


def _replace(node: exp.Expr, value: exp.Expr) -> None:
    """Put a value in place of a column or call; as an output it keeps the name."""
    if isinstance(node, exp.Column) and isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
        value = exp.alias_(value, node.name, quoted=True)
    node.replace(value)


def _except(star: exp.Star, names: list[str]) -> None:
    hidden = [*(star.args.get("except_") or ()), *(exp.to_identifier(name, quoted=True) for name in names)]
    star.set("except_", hidden)


def _field(window: exp.Expr, name: str) -> exp.Expr:
    return exp.Dot(this=window.copy(), expression=exp.to_identifier(name))
