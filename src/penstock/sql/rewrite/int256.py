"""Rewrite Spark SQL over 256-bit numbers: bytes inside expressions, structs wherever a value leaves one."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.schema import MappingSchema

from penstock.errors import PlanRefused
from penstock.sql.analyze.having_columns import qualify_tree
from penstock.sql.analyze.operand_types import operand_kind, set_kind
from penstock.sql.lint.int256 import ARITHMETIC, CHOICES, COMPARISONS, ENDS, WORDS, annotate_int256
from penstock.sql.parse.dialects import SPARK
from penstock.sql.rewrite.int256_groups import mark_group_values, take_mark
from penstock.sql.rewrite.operators import DIVIDE
from penstock.sql.rewrite.templates import call, wrap_operand
from penstock.sql.types.columns import Columns, data_type
from penstock.sql.types.flink_inference import WHOLE
from penstock.sql.types.int256 import (
    FIELDS,
    GIVES,
    LIMITS,
    TAKES,
    Int256Type,
    conversion_function,
    encode_hex,
    int256_type,
    is_decimal,
    parse_int256_type,
    struct_field,
)
from penstock.sql.types.literals import decimal_literal, int_literal
from penstock.sql.types.long_decimals import decimal_bytes, decimal_sizes

_NUMBER: Final = "number"
_COMPARED: Final[Sequence[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Sequence[str]]]] = (
    (exp.Between, ("this", "low", "high")),
    (exp.In, ("this", "expressions")),
    (exp.Is, ("this",)),
    (COMPARISONS, ("this", "expression")),
)
"""Nodes that compare operands, and the arguments that hold these."""
_MADE: Final = (
    *ARITHMETIC, *CHOICES, *ENDS, exp.Paren, exp.Neg, exp.Abs, exp.Cast, exp.Anonymous, exp.Case, exp.If, exp.Filter,
)  # fmt: skip
"""Nodes that compute a 256-bit number as bytes. Others, such as DISTINCT, pass the struct on."""


@lru_cache(maxsize=512)
def rewrite_int256(sql: str, inputs: tuple[tuple[str, Columns], ...]) -> str:
    """Rewrite a query over these tables. Raise PlanRefused where it uses 256-bit numbers wrongly."""
    tree = parse_one(sql, read=SPARK)
    assert isinstance(tree, exp.Query)
    for node in [node for node in tree.find_all(exp.Anonymous) if node.name.lower() == DIVIDE]:
        one, other = node.expressions
        node.replace(set_kind(exp.Div(this=wrap_operand(one), expression=wrap_operand(other)), DIVIDE))
    kinds = _int256_kinds(tree, inputs)
    mark_group_values(tree)
    found = _Int256Rewriter(kinds).value(tree)
    for left in [node for node in found.find_all(exp.Div) if operand_kind(node) == DIVIDE]:  # other numbers
        left.replace(call(DIVIDE, left.this, left.expression))
    return found.sql(SPARK, identify=True, comments=False)


def rewrite_int256_condition(condition: str, columns: Columns) -> str:
    """Rewrite a condition over rows with these columns."""
    tree = parse_one(rewrite_int256(f"SELECT 1 FROM rows_ WHERE {condition}", (("rows_", columns),)), read=SPARK)
    where: exp.Expr = tree.args["where"].this
    return where.sql(SPARK, identify=True, comments=False)


def _int256_kinds(tree: exp.Query, inputs: tuple[tuple[str, Columns], ...]) -> dict[int, Int256Type]:
    """Number the nodes of a tree, and return the types of those that are 256-bit numbers."""
    for number, node in enumerate(tree.walk()):
        node.meta[_NUMBER] = number
    known: dict[str, object] = {
        name.lower(): {c.name.lower(): data_type(parse_int256_type(c.type) or c.type or "unknown") for c in columns}
        for name, columns in inputs
    }
    schema = MappingSchema(known, dialect=SPARK, normalize=False)
    qualified = qualify_tree(tree.copy(), schema, SPARK)
    assert qualified is not None
    typed = annotate_types(qualified, schema=schema, dialect=SPARK)
    for problem in annotate_int256(typed):
        raise PlanRefused(problem.code, problem.message, hint=problem.hint)
    return {
        node.meta[_NUMBER]: kind
        for node in typed.walk()
        if _NUMBER in node.meta and (kind := int256_type(node.type)) is not None
    }


class _Int256Rewriter:
    """Rewrite a tree whose 256-bit numbers are known."""

    def __init__(self, kinds: Mapping[int, Int256Type]) -> None:
        self._kinds = kinds

    def kind(self, node: object) -> Int256Type | None:
        return self._kinds.get(node.meta.get(_NUMBER, -1)) if isinstance(node, exp.Expr) else None

    def value(self, node: exp.Expr) -> exp.Expr:
        """Rewrite a node for readers of its value: a 256-bit number is a struct."""
        kind = self.kind(node)
        take_mark(node)
        if kind is not None and isinstance(node, _MADE):
            return _wrap_struct(self.raw(node, kind), kind)
        if isinstance(node, exp.Anonymous) and node.name.lower() in TAKES:
            return self._rewrite_call(node)
        if isinstance(node, exp.Cast) and (own := self.kind(node.this)) is not None:
            return self._rewrite_cast(node, own)
        if isinstance(node, exp.Case):
            return self._rewrite_case(node, None)
        compared = self._compared_places(node)
        for place, given in list(node.args.items()):
            if compared is not None and place in compared[0]:
                self._set_raw(node, place, compared[1])
            elif isinstance(given, exp.Expr):
                node.set(place, self.value(given))
            elif isinstance(given, list):
                node.set(place, [self.value(part) if isinstance(part, exp.Expr) else part for part in given])
        return node

    def _compared_places(self, node: exp.Expr) -> tuple[Sequence[str], Int256Type] | None:
        """Return the compared arguments of a node and their common type; None without a 256-bit number among them."""
        places = next((places for cls, places in _COMPARED if isinstance(node, cls)), ())
        kind = self._kind_among([operand for place in places for operand in _as_list(node.args.get(place))])
        return None if kind is None else (places, kind)

    def _kind_among(self, operands: Iterable[object]) -> Int256Type | None:
        """Return the type in which operands are compared: a decimal if one of them is a decimal."""
        kinds = [kind for operand in operands if (kind := self.kind(operand)) is not None]
        return next(filter(is_decimal, kinds), kinds[0] if kinds else None)

    def _set_raw(self, node: exp.Expr, place: str, kind: Int256Type) -> None:
        given = node.args.get(place)
        if isinstance(given, list):
            node.set(place, [self.raw(operand, kind) for operand in given])
        elif isinstance(given, exp.Expr):
            node.set(place, self.raw(given, kind))

    def raw(self, node: exp.Expr, kind: Int256Type) -> exp.Expr:
        """Rewrite a node as the bytes of a 256-bit number of this type."""
        own = self.kind(node)
        if own is None or isinstance(node, exp.Literal):
            return self._coerce_value(node, kind)
        if is_decimal(kind) and not is_decimal(own):
            return call(conversion_function(kind), _text_call(self.raw(node, own), own))
        field = FIELDS.get(own, "dec")
        kind = own
        if take_mark(node):
            return _field(self.value(node), kind)
        if isinstance(node, exp.Paren):
            return exp.Paren(this=self.raw(node.this, kind))
        if isinstance(node, ARITHMETIC):
            word = next(word for cls, word in WORDS.items() if isinstance(node, cls))
            sides = [self.raw(node.this, kind), self.raw(node.expression, kind)]
            return call(f"penstock_{field}_{word}", *sides, *(_scale(kind) if (field, word) == ("dec", "div") else ()))
        if isinstance(node, exp.Neg | exp.Abs):
            inner, word = self.raw(node.this, kind), "neg" if isinstance(node, exp.Neg) else "abs"
            return inner if kind == "UINT256" else call(f"penstock_{field}_{word}", inner)
        if isinstance(node, exp.Cast):
            return self._convert_value(node.this, kind)
        if isinstance(node, exp.Anonymous) and GIVES.get(node.name.lower()) == kind:
            return self._rewrite_call(node)
        if isinstance(node, CHOICES):
            for place in ("this", "expression", "expressions"):
                self._set_raw(node, place, kind)
            return node
        if isinstance(node, (*ENDS, exp.Filter)):
            self._set_raw(node, "this", kind)
            if isinstance(node, exp.Filter):
                node.set("expression", self.value(node.expression))
            return node
        if isinstance(node, exp.Case):
            return self._rewrite_case(node, kind)
        if isinstance(node, exp.If):
            node.set("this", self.value(node.this))
            for place in ("true", "false"):
                self._set_raw(node, place, kind)
            return node
        return _field(self.value(node), kind)

    def _rewrite_case(self, node: exp.Case, kind: Int256Type | None) -> exp.Expr:
        """Rewrite a CASE. If its result is a 256-bit number of this type, it becomes bytes."""
        compared = None
        if node.this is not None:
            compared = self._kind_among([node.this, *(branch.this for branch in node.args["ifs"])])
            node.set("this", self._value_or_raw(node.this, compared))
        for branch in node.args["ifs"]:
            branch.set("this", self._value_or_raw(branch.this, compared))
            branch.set("true", self._value_or_raw(branch.args["true"], kind))
        if (default := node.args.get("default")) is not None:
            node.set("default", self._value_or_raw(default, kind))
        return node

    def _value_or_raw(self, node: exp.Expr, kind: Int256Type | None) -> exp.Expr:
        return self.value(node) if kind is None else self.raw(node, kind)

    def _coerce_value(self, node: exp.Expr, kind: Int256Type) -> exp.Expr:
        """Convert a value to the bytes of a 256-bit number. Literals are converted here, other values by Spark."""
        if is_decimal(kind) and (written := decimal_literal(node)) is not None:
            return exp.HexString(this=decimal_bytes(written), is_integer=False)
        number = None if is_decimal(kind) else int_literal(node)
        if number is not None and LIMITS[kind][0] <= number <= LIMITS[kind][1]:
            return exp.HexString(this=encode_hex(number, kind), is_integer=False)
        if isinstance(node, exp.Null):
            return exp.cast(exp.null(), "BINARY", dialect=SPARK)
        return call(conversion_function(kind), self.value(node))

    def _convert_value(self, node: exp.Expr, kind: Int256Type) -> exp.Expr:
        """Convert any value to the bytes of a 256-bit number of this type."""
        own = self.kind(node)
        if is_decimal(kind):
            return call("penstock_dec_cast", self.raw(node, kind), *map(exp.Literal.number, decimal_sizes(kind)))
        if own is None or own == kind:
            return self.raw(node, kind)
        if is_decimal(own):
            text = call("penstock_dec_text", self.raw(node, own), exp.Literal.number(0))
            return call(conversion_function(kind), text)
        return call(f"penstock_{FIELDS[own]}_as_{FIELDS[kind]}", self.raw(node, own))

    def _rewrite_call(self, node: exp.Anonymous) -> exp.Expr:
        """Rewrite a function over 256-bit numbers. It fails on null. A 256-bit result is bytes."""
        name = node.name.lower()
        kind = TAKES[name][1]
        if name in ("to_u256", "to_i256"):
            found = self._convert_value(node.expressions[0], GIVES[name])
        elif kind is None:  # to_int64
            own = self.kind(node.expressions[0]) or "INT256"
            found = _long_call(self.raw(node.expressions[0], own), own)
        elif name.endswith("_to_string"):
            found = _text_call(self.raw(node.expressions[0], kind), kind)
        else:
            found = call(f"penstock_{name}", *(self.raw(argument, kind) for argument in node.expressions))
        if isinstance(found, exp.HexString):
            return found
        said = exp.Literal.string(f"[WIDE_NUMBER] {name} is given NULL. SQLSTATE: 22004")
        return exp.Coalesce(this=found, expressions=[call("RAISE_ERROR", said)])

    def _rewrite_cast(self, node: exp.Cast, own: Int256Type) -> exp.Expr:
        """Rewrite a cast of a 256-bit number to another type, by way of text. A value that does not fit fails."""
        text = _text_call(self.raw(node.this, own), own)
        if node.to.this in exp.DataType.TEXT_TYPES:
            return text
        held = _long_call(self.raw(node.this, own), own) if node.to.this in WHOLE else text
        return exp.Cast(this=held, to=node.to.copy())


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _scale(kind: Int256Type) -> tuple[exp.Expr, ...]:
    """Return the scale of a decimal as an argument; integers have none."""
    return (exp.Literal.number(decimal_sizes(kind)[1]),) if is_decimal(kind) else ()


def _text_call(raw: exp.Expr, kind: Int256Type) -> exp.Expr:
    return call(f"penstock_{FIELDS.get(kind, 'dec')}_text", raw, *_scale(kind))


def _long_call(raw: exp.Expr, kind: Int256Type) -> exp.Expr:
    if is_decimal(kind):
        return exp.cast(call("penstock_dec_whole", raw), "BIGINT", dialect=SPARK)
    return call(f"penstock_{FIELDS[kind]}_long", raw)


def _field(whole: exp.Expr, kind: Int256Type) -> exp.Expr:
    held = whole if isinstance(whole, exp.Column | exp.Dot) else exp.Paren(this=whole)
    return exp.Dot(this=held, expression=exp.to_identifier(struct_field(kind), quoted=True))


def _wrap_struct(raw: exp.Expr, kind: Int256Type) -> exp.Expr:
    held = call("NAMED_STRUCT", exp.Literal.string(struct_field(kind)), raw)
    if isinstance(raw, exp.HexString):
        return held
    return exp.If(this=exp.Is(this=raw.copy(), expression=exp.null()), true=exp.null(), false=held)
