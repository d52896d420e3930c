"""Translate SQL to the gateway's SQL: fields of one topic, and conditions on them joined by AND.

Syntax that Conduktor's documentation does not mention is refused here and not sent to the gateway.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.statefulness import keyword_offset
from penstock.sql.catalog.function_names import written_name
from penstock.sql.gateway.selection import EVERYTHING, GatewayInput, SelectedOutput, Selection
from penstock.sql.parse.query import Problem, Query, start_of
from penstock.sql.types.columns import data_type
from penstock.sql.types.user_functions import plain_name

WAY_OUT: Final = "write `materialized: topic`, so that Spark runs it"
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_TAKEN: Final = frozenset(
    {
        "and", "as", "between", "by", "case", "distinct", "else", "end", "false", "from", "group", "having", "in", "is",
        "join", "like", "limit", "not", "null", "on", "or", "order", "record", "regexp", "select", "then", "true",
        "union", "when", "where",
    }
)  # fmt: skip
"""Names with another meaning in the gateway. Fields of `record` belong to the record itself: its key, its offset."""
_CLAUSES: Final[Mapping[str, str]] = {
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "joins": "JOIN",
    "laterals": "LATERAL",
    "order": "ORDER BY",
    "sample": "TABLESAMPLE",
    "with_": "WITH",
}
_COMPARED: Final[Mapping[type[exp.Expr], tuple[str, str]]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("<>", "<>"),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
}
"""Comparison operators, and their counterparts when the sides are swapped."""
_REGEXP: Final = "REGEXP"
_NAMES: Final[Mapping[type[exp.Expr], str]] = {
    exp.Between: "BETWEEN",
    exp.Boolean: "TRUE or FALSE",
    exp.Bracket: "field by its place or key",
    exp.Case: "CASE in this place",
    exp.Cast: "CAST",
    exp.Column: "column in this place",
    exp.Exists: "EXISTS",
    exp.ILike: "ILIKE",
    exp.In: "IN",
    exp.Is: "IS NULL",
    exp.Like: "LIKE",
    exp.Literal: "literal in this place",
    exp.Neg: "negative number",
    exp.NullSafeEQ: "<=>",
    exp.Or: "OR",
}


class _RefusedError(Exception):
    """A part of a query that the gateway does not support."""

    def __init__(self, node: exp.Expr, name: str, message: str | None = None, *, by_word: bool = False) -> None:
        super().__init__(name)
        self.node, self.name, self.by_word = node, name, by_word
        self.message = message or f"the gateway's SQL has no {name}"


def gateway_selection(query: Query, below: GatewayInput) -> tuple[Selection, tuple[Problem, ...]]:
    """Translate a query for the gateway. Also return the problems that prevent it."""
    problems: list[_RefusedError] = []
    tree = query.tree
    if not isinstance(tree, exp.Select):
        name = "UNION ALL" if isinstance(tree, exp.Union) and not tree.args.get("distinct") else tree.key.upper()
        return EVERYTHING, _locate_problems(query, [_RefusedError(tree, name, by_word=True)])
    problems.extend(_refused_clauses(tree))
    origin = tree.args.get("from_")
    translator = _GatewayTranslator(below, origin.this.alias_or_name.casefold() if origin is not None else "")
    outputs: list[SelectedOutput] = []
    conditions = [*below.selection.conditions]
    is_all = [e.is_star for e in tree.expressions] == [True]
    star = tree.find(exp.Star) if is_all else None
    if star is not None and any(star.args.values()):
        problems.append(_RefusedError(star, "`*` with anything behind it"))
    for position, projection in enumerate(() if is_all else tree.expressions):
        try:
            outputs.append(translator.output(projection, position))
        except _RefusedError as refused:
            problems.append(refused)
    where = tree.args.get("where")
    for condition in _split_conjuncts(where.this) if where is not None else ():
        try:
            conditions.append(translator.condition(condition))
        except _RefusedError as refused:
            problems.append(refused)
    chosen = below.selection.outputs if is_all else tuple(outputs)
    return Selection(chosen, tuple(conditions)), _locate_problems(query, problems)


def _locate_problems(query: Query, problems: list[_RefusedError]) -> tuple[Problem, ...]:
    found = []
    for problem in problems:
        start = _start_offset(problem.node)
        offset = keyword_offset(query, problem.name, start) if problem.by_word else start
        found.append(Problem("gateway-unsupported", problem.message, offset, WAY_OUT, subject=problem.name))
    return tuple(dict.fromkeys(found))


def _start_offset(node: exp.Expr) -> int:
    """Return the offset of a node, or of the nearest parent with a known offset."""
    while not any("start" in part.meta for part in node.walk()) and node.parent is not None:
        node = node.parent
    return start_of(node)


def _refused_clauses(tree: exp.Select) -> Iterator[_RefusedError]:
    """Refuse every clause of a SELECT except its list, its table and its WHERE."""
    for key, value in tree.args.items():
        if value and key not in ("expressions", "from_", "where"):
            node = value[0] if isinstance(value, list) else value
            name = _CLAUSES.get(key, key.upper())
            yield _RefusedError(node if isinstance(node, exp.Expr) else tree, name, by_word=True)
    origin = tree.args.get("from_")
    table = origin.this if origin is not None else None
    if isinstance(table, exp.Table):
        more = [key for key, value in table.args.items() if value and key not in ("this", "alias", "db", "catalog")]
        alias = table.args.get("alias")
        if more or (alias is not None and alias.args.get("columns")):
            yield _RefusedError(table, "table with anything but a name and an alias")
    elif table is not None:
        yield _RefusedError(table, "subquery" if isinstance(table, exp.Subquery) else "table function")


def _split_conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Split a condition into the conditions joined by AND, in the order of the text."""
    match condition:
        case exp.Paren():
            yield from _split_conjuncts(condition.this)
        case exp.And():
            yield from _split_conjuncts(condition.left)
            yield from _split_conjuncts(condition.right)
        case _:
            yield condition


@dataclass(frozen=True, slots=True)
class _GatewayTranslator:
    """Translate the parts of a query that the gateway supports."""

    below: GatewayInput
    alias: str

    def output(self, projection: exp.Expr, position: int) -> SelectedOutput:
        name = projection.output_name or f"_col_{position}"
        if projection.is_star:
            raise _RefusedError(projection, "`*` beside other outputs")
        if not _is_name(name):
            raise _RefusedError(projection, f"output called `{name}`")
        inner = projection.unalias()
        if isinstance(inner, exp.Case):
            return SelectedOutput(name, self._case(inner), is_field=False)
        path = _field_path(inner, self.alias)
        if path is None:
            raise _RefusedError(inner, _describe_node(inner))
        shown = self.below.outputs.get(path[0].casefold())
        return SelectedOutput(name, self._field(inner, path), path[0].casefold(), shown is None or shown.is_field)

    def condition(self, node: exp.Expr) -> str:
        field, operator, literal = self._comparison_sides(node)
        path = _field_path(field, self.alias)
        if path is None:
            raise _RefusedError(field, _describe_node(field))
        if not isinstance(literal, exp.Literal):
            raise _RefusedError(literal, _describe_node(literal))
        if path[0].casefold() in self.below.masked:
            raise _RefusedError(field, path[0], f"`{path[0]}` is masked, and the gateway would use the unmasked value")
        if (shown := self.below.outputs.get(path[0].casefold())) is not None and not shown.is_field:
            raise _RefusedError(field, "condition on a CASE")
        self._check_type(field, path, literal)
        return f"{self._field(field, path)} {operator} {_render_literal(literal)}"

    def _comparison_sides(self, node: exp.Expr) -> tuple[exp.Expr, str, exp.Expr]:
        """Return the field of a comparison, its operator, and the literal that it is compared with."""
        if type(node) in _COMPARED:
            straight, turned = _COMPARED[type(node)]
            left, right = node.this.unnest(), node.expression.unnest()
            if isinstance(left, exp.Literal) and not isinstance(right, exp.Literal):
                return right, turned, left
            return left, straight, right
        if isinstance(node, exp.RegexpLike):
            return node.this.unnest(), _REGEXP, node.expression.unnest()
        if isinstance(node, exp.Anonymous) and node.name.upper() == _REGEXP and len(node.expressions) == 2:
            return node.expressions[0].unnest(), _REGEXP, node.expressions[1].unnest()
        raise _RefusedError(node, _describe_node(node))

    def _case(self, case: exp.Case) -> str:
        if case.this is not None:
            raise _RefusedError(case, "CASE with a value behind it")
        if case.args.get("default") is None:
            raise _RefusedError(case, "CASE without ELSE")
        parts = []
        for branch in case.args["ifs"]:
            conditions = " AND ".join(self.condition(condition) for condition in _split_conjuncts(branch.this))
            parts.append(f"WHEN {conditions} THEN {self._result(branch.args['true'])}")
        return f"CASE {' '.join(parts)} ELSE {self._result(case.args['default'])} END"

    def _result(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Literal):
            raise _RefusedError(node, "CASE that gives anything but texts and numbers")
        return _render_literal(node)

    def _field(self, node: exp.Expr, path: tuple[str, ...]) -> str:
        """Render a field as it is named in the records of the topic."""
        if (output := self.below.outputs.get(path[0].casefold())) is not None:
            if len(path) > 1 and not output.is_field:
                raise _RefusedError(node, "field of a CASE")
            return ".".join([output.text, *path[1:]])
        known = {c.name.casefold(): c.name for c in self.below.columns or ()}
        if self.below.columns is not None and path[0].casefold() not in known:
            raise _RefusedError(node, path[0], f"the records have no field `{path[0]}`")
        path = (known.get(path[0].casefold(), path[0]), *path[1:])
        if not all(map(_is_name, path)):
            raise _RefusedError(node, f"field called `{'.'.join(path)}`")
        return ".".join(path)

    def _check_type(self, node: exp.Expr, path: tuple[str, ...], literal: exp.Literal) -> None:
        """Compare numbers with numbers and strings with strings only. Spark converts other types by its own rules."""
        kind = next((c.type for c in self.below.columns or () if c.name.casefold() == path[0].casefold()), None)
        if kind is None or len(path) > 1:
            return
        is_number = data_type(kind).this in exp.DataType.NUMERIC_TYPES
        if is_number == literal.is_string or (literal.is_string and kind != "STRING"):
            given = "a text" if literal.is_string else "a number"
            raise _RefusedError(node, path[0], f"`{path[0]}` is {kind}, and the gateway would compare it with {given}")


def _field_path(node: exp.Expr, alias: str) -> tuple[str, ...] | None:
    """Return the names that lead to a field, without the table's name; None if the node is not a field."""
    match node:
        case exp.Column() if not node.is_star:
            names = tuple(part.name for part in node.parts)
        case exp.Dot() if isinstance(node.expression, exp.Identifier):
            inner = _field_path(node.this, "")
            names = () if inner is None else (*inner, node.expression.name)
        case _:
            names = ()
    without = names[1:] if len(names) > 1 and names[0].casefold() == alias else names
    return without or None


def _is_name(text: str) -> bool:
    return _WORD.fullmatch(text) is not None and text.casefold() not in _TAKEN


def _render_literal(literal: exp.Literal) -> str:
    text = str(literal.this)
    if not literal.is_string:
        if not _NUMBER.fullmatch(text):
            raise _RefusedError(literal, f"number written as `{text}`")
        return text
    if text.startswith("$"):
        message = "the gateway reads a text that begins with `$` as a field"
        raise _RefusedError(literal, "text that begins with `$`", message)
    return "'" + text.replace("'", "''") + "'"


def _describe_node(node: exp.Expr) -> str:
    """Describe a part of a query for messages."""
    if isinstance(node, exp.Not):
        inner = node.this.unnest()
        return "IS NOT NULL" if isinstance(inner, exp.Is) else f"NOT {_NAMES.get(type(inner), '')}".strip()
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    if isinstance(node, exp.Subquery | exp.Query):
        return "subquery"
    if isinstance(node, exp.Func):
        return f"{plain_name(written_name(node))}(…)"
    return f"`{node.sql(comments=False)}`"
