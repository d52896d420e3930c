"""Find the 256-bit numbers of a query, and values that cannot be combined with them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from penstock.sql.analyze.having_columns import output_aliases
from penstock.sql.catalog.function_names import written_name
from penstock.sql.parse.query import Problem, argument_problem
from penstock.sql.types.columns import Columns, type_text
from penstock.sql.types.flink_inference import WHOLE
from penstock.sql.types.int256 import (
    FIELDS,
    GIVES,
    LIMITS,
    TAKES,
    Int256Type,
    int256_type,
    is_decimal,
    mentions_int256,
    parse_int256_type,
)
from penstock.sql.types.literals import decimal_literal, int_literal
from penstock.sql.types.long_decimals import common_kind, decimal_sizes, result_kind

ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
WORDS: Final[Mapping[type[exp.Expr], str]] = {
    exp.Add: "add", exp.Sub: "sub", exp.Mul: "mul", exp.Div: "div", exp.IntDiv: "div", exp.Mod: "mod"
}  # fmt: skip
COMPARISONS: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
CHOICES: Final = (exp.Coalesce, exp.Greatest, exp.Least, exp.Nullif)
ENDS: Final = (exp.Max, exp.Min)
_CARRIERS: Final = (
    exp.Query, exp.Alias, exp.Group, exp.Order, exp.Ordered, exp.Count, exp.Distinct, exp.Is, exp.Array, exp.Struct,
    exp.PropertyEQ, exp.Dot, exp.Tuple, exp.If, exp.Column, exp.Where, exp.Having, exp.From, exp.Join, exp.And,
    exp.Or, exp.Not,
)  # fmt: skip
"""Nodes that accept a 256-bit number unchanged. A branch of CASE is checked with its CASE."""
_CAST_TO: Final = frozenset(
    {
        *exp.DataType.TEXT_TYPES, *WHOLE, exp.DType.DECIMAL, exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.UINT256,
        exp.DType.INT256,
    }
)  # fmt: skip
_OPEN: Final = frozenset({exp.DType.UNKNOWN, exp.DType.NULL})
_ONE_KIND: Final = "convert one of them with to_i256(…) or to_u256(…)"
_MAKER: Final[Mapping[Int256Type, str]] = {"UINT256": "to_u256(…)", "INT256": "to_i256(…)"}


def may_have_int256(sql: str, inputs: Mapping[str, Columns | None]) -> bool:
    return mentions_int256(sql) or any(parse_int256_type(c.type) for columns in inputs.values() for c in columns or ())


def annotate_int256(tree: exp.Expr) -> list[Problem]:
    """Annotate the 256-bit numbers of a tree that is qualified and annotated. Return the problems with their use."""
    problems: list[Problem] = []
    outputs: dict[int, dict[str, exp.DataType]] = {}
    for scope in traverse_scope(tree):
        if isinstance(scope.expression, exp.SetOperation):
            problems += _check_union(scope.expression)
        for node in _own_expressions(scope.expression) if isinstance(scope.expression, exp.Select) else ():
            if isinstance(node, exp.Column):
                _resolve_column(node, scope, outputs)
            else:
                problems += _check_node(node)
        found = scope.expression.selects if isinstance(scope.expression, exp.Query) else []
        outputs[id(scope.expression)] = {e.alias_or_name: e.type for e in found if e.type is not None}
    return problems


def _own_expressions(node: exp.Expr) -> Iterator[exp.Expr]:
    """Return a query's own expressions, operands first. Its subqueries are skipped: they were annotated before."""
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query):
            yield from _own_expressions(child)
        elif isinstance(child, exp.Subquery) and len(child.selects) == 1 and child.selects[0].type is not None:
            child.type = child.selects[0].type
    yield node


def _resolve_column(column: exp.Column, scope: Scope, outputs: Mapping[int, Mapping[str, exp.DataType]]) -> None:
    """Set the type of a column from its subquery, or from the output that it names in HAVING."""
    if not column.table and isinstance(scope.expression, exp.Select):
        output = output_aliases(scope.expression).get(column.name)
        _set_type(column, int256_type(output.type) if output is not None else None)
    source = scope.sources.get(column.table)
    if isinstance(source, Scope) and (kind := outputs.get(id(source.expression), {}).get(column.name)) is not None:
        column.type = kind


def _check_node(node: exp.Expr) -> Iterator[Problem]:
    match node:
        case exp.Paren() | exp.Alias():
            node.type = node.this.type or node.type
        case _ if isinstance(node, ARITHMETIC):
            yield from _check_operands(node, [node.this, node.expression], gives=True)
            if isinstance(node, exp.IntDiv) and is_decimal(int256_type(node.type)):
                hint = "use `/`, and CAST(… AS BIGINT) for the integer part"
                yield argument_problem(node, "DIV does not take DECIMAL of more than 38 digits", hint, "DIV")
        case _ if isinstance(node, COMPARISONS):
            yield from _check_operands(node, [node.this, node.expression])
        case exp.Between():
            yield from _check_operands(node, [node.this, node.args["low"], node.args["high"]])
        case exp.In():
            yield from _check_operands(node, [node.this, *node.expressions])
        case exp.Nullif():
            yield from _check_operands(node, [node.this, node.expression], gives=True)
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            yield from _check_operands(node, [node.this, *node.expressions], gives=True)
        case exp.Case():
            if node.this is not None:
                yield from _check_operands(node, [node.this, *(branch.this for branch in node.args["ifs"])])
            yield from _check_operands(node, branches(node), gives=True)
        case exp.If() if not isinstance(node.parent, exp.Case):
            yield from _check_operands(node, branches(node), gives=True)
        case exp.Neg() | exp.Abs():
            kind = int256_type(node.this.type)
            if isinstance(node, exp.Neg) and kind == "UINT256":
                yield argument_problem(node, "a UINT256 cannot be negated", "convert it with to_i256(…)", "-")
            _set_type(node, kind)
        case exp.Max() | exp.Min() | exp.Filter():
            _set_type(node, int256_type(node.this.type))
        case exp.TryCast() if node.args.get("safe") and (int256_type(node.this.type) or int256_type(node.to)):
            hint = "use CAST, which rejects rows whose number does not fit"
            yield argument_problem(node, "TRY_CAST does not support 256-bit numbers", hint, "TRY_CAST")
        case exp.Cast():
            yield from _check_cast(node)
        case exp.Anonymous() if node.name.lower() in TAKES:
            yield from _check_call(node, node.name.lower())
        case _ if not isinstance(node, _CARRIERS):
            yield from _check_placement(node)


def branches(node: exp.Expr) -> list[exp.Expr]:
    """Return the possible results of a CASE or an IF."""
    if isinstance(node, exp.Case):
        found = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
    else:
        found = [node.args["true"], node.args.get("false")]
    return [part for part in found if part is not None]


def _set_type(node: exp.Expr, kind: Int256Type | None) -> None:
    if kind is not None:
        node.type = exp.DataType.build(kind, dialect="clickhouse" if kind in FIELDS else "spark")


def _result_kind(node: exp.Expr, operands: Sequence[exp.Expr]) -> Int256Type:
    """Return the type of a result if one operand is a long decimal."""
    sizes = [_digit_sizes(operand) for operand in operands if not isinstance(operand, exp.Null)]
    word = next((word for cls, word in WORDS.items() if isinstance(node, cls)), None)
    return common_kind(*sizes) if word is None or len(sizes) < 2 else result_kind(word, sizes[0], sizes[1])


def _digit_sizes(operand: exp.Expr) -> tuple[int, int]:
    """Return the precision and scale of an operand."""
    kind = int256_type(operand.type)
    if kind is not None:
        return decimal_sizes(kind) if is_decimal(kind) else _INT256_DIGITS
    if (written := decimal_literal(operand)) is not None:
        _, digits, power = written.as_tuple()
        assert isinstance(power, int)
        return max(len(digits), -power), max(-power, 0)
    found = operand.type
    if found is not None and found.this is exp.DType.DECIMAL and found.expressions:
        sizes = [int(size.name) for size in found.expressions]
        return sizes[0], sizes[1] if len(sizes) > 1 else 0
    return _DIGITS_OF.get(found.this, _UNKNOWN) if found is not None else _UNKNOWN


_INT256_DIGITS: Final = (78, 0)
_UNKNOWN: Final = (38, 18)
_DIGITS_OF: Final = dict(zip(WHOLE, ((3, 0), (5, 0), (10, 0), (19, 0)), strict=True))


def _check_operands(node: exp.Expr, operands: Sequence[exp.Expr], *, gives: bool = False) -> Iterator[Problem]:
    """Check operands if one of them is a 256-bit number: the others must be convertible to its type."""
    kinds = [kind for kind in (int256_type(operand.type) for operand in operands) if kind is not None]
    if not kinds:
        return
    decimal = next((kind for kind in kinds if is_decimal(kind)), None)
    if gives:
        _set_type(node, kinds[0] if decimal is None else _result_kind(node, operands))
    if decimal is None and len(set(kinds)) > 1:
        yield argument_problem(node, "UINT256 and INT256 cannot be mixed", _ONE_KIND, "UINT256")
        return
    for operand in operands:
        if (found := _misfit(operand, decimal or kinds[0])) is not None:
            yield argument_problem(node, found[0], found[1], decimal or kinds[0])
            return


def _misfit(operand: exp.Expr, kind: Int256Type, *, texts: bool = False) -> tuple[str, str] | None:
    """Explain why a value cannot be converted to a 256-bit type, with a hint; None if it can."""
    if (own := int256_type(operand.type)) == kind or (own is not None and is_decimal(kind)):
        return None
    if is_decimal(kind) and decimal_literal(operand) is not None:
        return None
    value = int_literal(operand)
    if value is not None:
        return None if LIMITS[kind][0] <= value <= LIMITS[kind][1] else _range_error(value, kind)
    found = operand.type
    if found is None or found.this in _OPEN or found.this in WHOLE or isinstance(operand, exp.Null):
        return None
    shown = type_text(found) or "a value"
    if found.this is exp.DType.DECIMAL:
        sizes = [int(size.name) for size in found.expressions]
        if len(sizes) < 2 or sizes[1] == 0 or is_decimal(kind):
            return None
        return f"{kind} and {shown} cannot be mixed: a 256-bit integer has no digits after the decimal point", _LOSSY
    if found.this in (exp.DType.DOUBLE, exp.DType.FLOAT):
        return f"{kind} and {shown} cannot be mixed: digits would be lost", _LOSSY
    if found.this in exp.DataType.TEXT_TYPES or found.this in (exp.DType.BINARY, exp.DType.VARBINARY):
        maker = _MAKER.get(kind, f"CAST(… AS {kind})")
        return None if texts else (f"{kind} and {shown} cannot be mixed", f"convert the text with {maker}")
    return f"{kind} and {shown} cannot be mixed", f"write CAST(… AS STRING) around the {kind}"


_LOSSY: Final = "write CAST(… AS DOUBLE) around the 256-bit number if it may lose digits"


def _range_error(value: int, kind: Int256Type) -> tuple[str, str]:
    if kind == "UINT256" and value < 0:
        return f"{value} is negative, and UINT256 is unsigned", "use to_i256(…) for a signed number"
    return f"{value} does not fit into {kind}", f"{kind} goes from {LIMITS[kind][0]} to {LIMITS[kind][1]}"


def _check_cast(node: exp.Cast) -> Iterator[Problem]:
    kind, wanted = int256_type(node.this.type), int256_type(node.to)
    if kind is not None and node.to.this not in _CAST_TO:
        text = f"{kind} cannot be cast to {type_text(node.to)}"
        yield argument_problem(node, text, "write CAST(… AS STRING) around it", "CAST")
    elif wanted is not None and kind is None and (found := _misfit(node.this, wanted, texts=True)) is not None:
        yield argument_problem(node, found[0], found[1], "CAST")
    _set_type(node, wanted)


def _check_call(node: exp.Anonymous, name: str) -> Iterator[Problem]:
    number, kind = TAKES[name]
    node.type = exp.DataType.build(GIVES[name], dialect="clickhouse" if parse_int256_type(GIVES[name]) else "spark")
    if len(node.expressions) != number:
        text = f"{name} takes {number} argument{'s' * (number > 1)}, and is given {len(node.expressions)}"
        yield argument_problem(node, text, "see docs/pipelines.md for the functions over 256-bit numbers", name)
        return
    made = parse_int256_type(GIVES[name]) or "INT256"
    for argument in node.expressions:
        own = int256_type(argument.type)
        if own is not None and kind not in (None, own):
            yield argument_problem(node, f"{name} takes {kind}, and is given {own}", _ONE_KIND, name)
        elif own is None and (found := _misfit(argument, kind or made, texts=True)) is not None:
            text = f"{name} is given {type_text(argument.type) or 'a value'}: {found[0]}"
            yield argument_problem(node, text, "write CAST(… AS DECIMAL(38, 0)) around it", name)


def _check_placement(node: exp.Expr) -> Iterator[Problem]:
    """Refuse functions that do not support 256-bit numbers: they would misread the bytes."""
    kind = next((kind for child in node.iter_expressions() if (kind := int256_type(child.type)) is not None), None)
    if kind is not None and not isinstance(node, exp.DataType | exp.ColumnDef):
        text = f"{written_name(node)} does not take {kind}"
        yield argument_problem(node, text, "write CAST(… AS STRING) around it", written_name(node))


def _check_union(union: exp.SetOperation) -> Iterator[Problem]:
    sides = [side.unnest() for side in (union.left, union.right)]
    # Spark refuses sides of unequal length.
    pairs = zip(*(side.selects if isinstance(side, exp.Query) else [] for side in sides), strict=False)
    for one, other in pairs:
        kinds = {int256_type(one.type), int256_type(other.type)}
        empty = any(isinstance(side.unalias(), exp.Null) for side in (one, other))
        if len(kinds) > 1 and not empty:
            shown = " and ".join(int256_type(side.type) or type_text(side.type) or "a value" for side in (one, other))
            text = f"the types of `{one.alias_or_name}` differ between the sides of a UNION: {shown}"
            yield argument_problem(other, text, "convert one of them with to_u256(…) or to_i256(…)", "UNION")
