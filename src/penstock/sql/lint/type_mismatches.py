"""Find operators, conditions and unions with wrong types, and those that convert strings to numbers."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from sqlglot import exp

from penstock.sql.catalog.function_names import written_name
from penstock.sql.lint.nested_types import check_element, check_field, check_unnest
from penstock.sql.parse.query import Problem, argument_problem, offset_of, start_of
from penstock.sql.types.columns import type_text
from penstock.sql.types.families import Family, KnownTypes, family_of_type
from penstock.sql.types.literals import is_boolean, is_date, is_number, is_timestamp

_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_CONDITIONS: Final = (exp.Where, exp.Having, exp.Join, exp.If, exp.And, exp.Or, exp.Not)
_JUDGED: Final = (
    *_ARITHMETIC, *_COMPARISONS, *_CONDITIONS, exp.Neg, exp.In, exp.Between, exp.Case, exp.Bracket, exp.SetOperation,
    exp.Cast, exp.Coalesce, exp.Dot, exp.Greatest, exp.Least, exp.Unnest,
)  # fmt: skip
AS_NUMBER: Final = "sql-text-as-number"
_SIGNS: Final = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_LOOSE: Final = frozenset({frozenset({"number", "text"}), frozenset({"time", "date"})})


def find_mismatches(typed: exp.Expr, types: KnownTypes, *, in_flink: bool) -> Iterator[Problem]:
    """Report type errors, and with a separate code the operators that fail only on some rows."""
    for node in typed.find_all(*_JUDGED):
        match node:
            case exp.Bracket():
                yield from check_element(node, types, in_flink=in_flink)
            case exp.Cast():
                yield from _check_cast(node)
            case exp.Dot():
                yield from check_field(node, types)
            case exp.Coalesce() | exp.Greatest() | exp.Least():
                yield from _check_choice(node, types)
            case exp.SetOperation():
                yield from _check_union(node, types)
            case exp.Unnest():
                yield from check_unnest(node, types)
            case exp.Neg():
                yield from _check_negation(node, types)
            case exp.In() | exp.Between() | exp.Case():
                yield from _check_value_list(node, types)
            case _ if isinstance(node, _ARITHMETIC):
                yield from _check_arithmetic(node, types)
            case _ if isinstance(node, _COMPARISONS):
                yield from _check_comparison(node, node.this, node.expression, types)
        yield from _check_condition(node, types)


def _check_arithmetic(node: exp.Expr, types: KnownTypes) -> Iterator[Problem]:
    sides = [node.this, node.expression]
    one, other = (types.family_of(side) for side in sides)
    found, sign = {one, other}, next(sign for kind, sign in _SIGNS.items() if isinstance(node, kind))
    if found == {"text"} and all(not isinstance(side, exp.Literal) for side in sides):
        text = f"{sign} takes numbers, and is given two texts"
        hint = "|| concatenates texts" if sign == "+" else "write CAST(… AS DOUBLE)"
        yield argument_problem(node, text, hint, sign)
    elif found & {"truth", "bytes", "nested"} or _is_bad_time_math(node, one, other):
        hint = "write an interval: INTERVAL '1' HOUR" if found & {"time", "date"} else "write CAST(… AS DOUBLE)"
        yield argument_problem(node, f"{sign} cannot be used with {_describe_types(types, *sides)}", hint, sign)
    else:
        yield from _check_text_number(node, sides, types)


def _is_bad_time_math(node: exp.Expr, one: Family | None, other: Family | None) -> bool:
    """Whether an operator combines times and numbers in an invalid way. Days can be added to a date."""
    found = {one, other}
    if not found & {"time", "date"}:
        return False
    if isinstance(node, exp.Add):
        return found <= {"time", "date"} or found == {"time", "number"}
    if isinstance(node, exp.Sub):
        return one == "number" or (one == "time" and other == "number")
    return True


def _check_comparison(node: exp.Expr, one: exp.Expr, other: exp.Expr, types: KnownTypes) -> Iterator[Problem]:
    families = types.family_of(one), types.family_of(other)
    found = frozenset(families)
    if None in found or len(found) == 1 or found in _LOOSE or ("text" in found and "nested" not in found):
        unreadable = list(_unreadable_literals(node, one, other, types))
        yield from unreadable or _check_text_number(node, [one, other], types)
        return
    hint = "write CAST(… AS …) around one of them"
    if found & {"time", "date"}:
        hint = "write a time: TIMESTAMP '2026-01-01 00:00:00'; TO_TIMESTAMP_LTZ(…, 3) converts milliseconds"
    yield argument_problem(node, f"{_describe_types(types, one, other)} cannot be compared", hint, "comparison")


_READ_AS: Final[Mapping[str, tuple[Callable[[str], bool], str, str]]] = {
    "number": (is_number, "a number", "write a number, or CAST(… AS STRING) around the other side"),
    "time": (is_timestamp, "a time", "write it like '2026-01-31 12:00:00'"),
    "date": (is_date, "a day", "write it like '2026-01-31'"),
    "truth": (is_boolean, "TRUE or FALSE", "write TRUE or FALSE"),
}


def _unreadable_literals(node: exp.Expr, one: exp.Expr, other: exp.Expr, types: KnownTypes) -> Iterator[Problem]:
    """Report string literals that cannot be converted to the type of the other side: Spark would fail on them."""
    for side, compared in ((one, other), (other, one)):
        wanted = _READ_AS.get(types.family_of(compared) or "")
        literal = side.this if isinstance(side, exp.Cast) and side.is_type(*exp.DataType.TEXT_TYPES) else side
        if wanted is None or not isinstance(literal, exp.Literal) or not literal.is_string:
            continue
        can_read, kind, hint = wanted
        if not can_read(literal.name):
            text = f"{_describe_node(compared)} is {type_text(types.type_of(compared))}"
            yield argument_problem(node, f"{text}, and {literal.sql()} is not {kind}", hint, literal.name)


def _check_cast(node: exp.Cast) -> Iterator[Problem]:
    """Report string literals that cannot be converted to the target type. `DATE 'today'` is valid."""
    family = None if node.args.get("safe") or node.to.this is exp.DType.TIME else family_of_type(node.to)
    wanted = None if type(node) is exp.Cast and family in ("time", "date") else _READ_AS.get(family or "")
    if wanted is None or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return
    can_read, kind, _ = wanted
    if not can_read(node.this.name):
        hint = "TRY_CAST gives null for a text that cannot be read"
        yield argument_problem(node, f"{node.this.sql()} is not {kind}", hint, node.this.name)


def _check_value_list(node: exp.Expr, types: KnownTypes) -> Iterator[Problem]:
    """Check IN, BETWEEN and CASE x, which compare one value with several. Only the first mismatch is reported."""
    match node:
        case exp.In():
            others = node.expressions
        case exp.Between():
            others = [node.args["low"], node.args["high"]]
        case _:
            others = [branch.this for branch in node.args["ifs"]] if node.this is not None else []
    for other in others:
        if found := list(_check_comparison(node, node.this, other, types)):
            yield from found
            return


def _check_negation(node: exp.Neg, types: KnownTypes) -> Iterator[Problem]:
    family = types.family_of(node.this)
    if family not in (None, "number", "text"):
        text = f"- cannot be used with {type_text(types.type_of(node.this))}"
        yield argument_problem(node, text, "write CAST(… AS DOUBLE)", "-")


def _check_text_number(node: exp.Expr, sides: list[exp.Expr], types: KnownTypes) -> Iterator[Problem]:
    if {types.family_of(side) for side in sides} != {"text", "number"}:
        return
    text, number = sorted(sides, key=lambda side: types.family_of(side) != "text")
    if isinstance(text, exp.Literal) and is_number(text.name):
        return
    shown, name = _describe_node(text), _describe_node(text).strip("`")
    as_text, as_number = f"write CAST({_describe_node(number).strip('`')} AS STRING)", f"TRY_CAST({name} AS DOUBLE)"
    if isinstance(text, exp.Literal):
        yield argument_problem(node, f"{shown} is read as a number here, but is not a number", as_text, name)
        return
    hint = f"{as_text}, or {as_number}"
    if isinstance(node, _ARITHMETIC):
        hint = f"write {as_number}, which is null if the text is not a number"
    message = f"{shown} is a text that is read as a number here: rows whose text is not a number fail"
    yield Problem(AS_NUMBER, message, start_of(node), hint, name)


def _describe_types(types: KnownTypes, *sides: exp.Expr) -> str:
    return " and ".join(type_text(types.type_of(side)) or "a value" for side in sides)


def _describe_node(node: exp.Expr) -> str:
    match node:
        case exp.Column():
            return f"`{node.name}`"
        case exp.Literal():
            return node.sql()
        case exp.Cast(this=exp.Literal()):
            return str(node.this.sql())
        case _:
            return "…"


def _check_condition(node: exp.Expr, types: KnownTypes) -> Iterator[Problem]:
    """Report conditions that are not boolean."""
    match node:
        case exp.Join():
            conditions = [node.args.get("on")]
        case exp.If() if isinstance(node.parent, exp.Case) and node.parent.this is not None:
            conditions = []
        case exp.And() | exp.Or():
            conditions = [node.this, node.expression]
        case exp.Where() | exp.Having() | exp.If() | exp.Not():
            conditions = [node.this]
        case _:
            conditions = []
    for condition in filter(None, conditions):
        family = types.family_of(condition)
        if family in (None, "truth") or (family == "text" and isinstance(node, exp.Connector | exp.Not)):
            continue
        text = f"a condition is TRUE or FALSE, and this is {type_text(types.type_of(condition))}"
        yield argument_problem(condition, text, "write a comparison: … > 0, … = 'x'", "condition")


def _check_choice(node: exp.Expr, types: KnownTypes) -> Iterator[Problem]:
    """Check the values of COALESCE, GREATEST and LEAST. Only the first value of another type is reported."""
    values = [node.this, *node.expressions]
    known = [value for value in values if types.family_of(value) is not None]
    for one, other in pairwise(known):
        found = frozenset({types.family_of(one), types.family_of(other)})
        if len(found) == 1 or found == {"time", "date"}:
            continue
        if "text" in found and "nested" not in found and isinstance(node, exp.Coalesce):
            yield from _check_text_number(node, [one, other], types)
            continue
        word = "COALESCE" if isinstance(node, exp.Coalesce) else written_name(node)
        hint = "write CAST(… AS STRING) around one of them" if "text" in found else "give it values of one type"
        yield argument_problem(node, f"{word} cannot be used with {_describe_types(types, one, other)}", hint, word)
        return


def _check_union(union: exp.SetOperation, types: KnownTypes) -> Iterator[Problem]:
    if union.args.get("by_name"):
        return
    left, right = union.left.unnest(), union.right.unnest()
    if not isinstance(left, exp.Query) or not isinstance(right, exp.Query) or left.is_star or right.is_star:
        return
    for one, other in zip(left.selects, right.selects, strict=False):  # Spark refuses sides of unequal length
        found = frozenset({types.family_of(one.unalias()), types.family_of(other.unalias())})
        if None in found or len(found) == 1 or found == {"time", "date"}:
            continue
        place = start_of(other) or offset_of(right)
        shown = [type_text(types.type_of(side.unalias())) for side in (one, other)]
        name = one.alias_or_name
        if found == {"number", "text"}:
            message = f"`{name}` is {shown[0]} on one side and {shown[1]} on the other"
            message += ": rows whose text is not a number fail"
            yield Problem(AS_NUMBER, message, place, "write CAST(… AS STRING) around the number", name)
        else:
            message = f"`{name}` is {shown[0]} on one side of the UNION and {shown[1]} on the other"
            yield Problem("sql-argument", message, place, "write CAST(… AS STRING) around one of them", name)
