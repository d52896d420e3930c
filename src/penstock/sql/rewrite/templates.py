"""Build Spark SQL trees from templates, in which `_1` represents the first argument."""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, TypeAlias

from sqlglot import exp, parse_one

from penstock.sql.parse.dialects import TEMPLATE

Rewrite: TypeAlias = Callable[[exp.Expr], exp.Expr | None]
"""A function that returns the replacement of a node; None if the node stays."""

_PLACE: Final = re.compile(r"_([1-9])(_literal|_plain)?")
_TORN: Final = (exp.Binary, exp.Unary, exp.Between, exp.In)
"""Nodes that need brackets as operands of an operator."""


def fill_template(template: str, *arguments: exp.Expr) -> exp.Expr:
    """Fill a template with arguments for `_1`, `_2` and so on. The arguments are copied."""
    around = exp.Paren(this=_parse_template(template).copy())
    _rename_lambda_names(around, arguments)
    for column in list(around.find_all(exp.Column)):
        if (place := _PLACE.fullmatch(column.name)) is not None:
            argument = _prepare_argument(arguments[int(place[1]) - 1].copy(), place[2])
            column.replace(wrap_operand(argument) if isinstance(column.parent, _TORN) else argument)
    made = around.this
    assert isinstance(made, exp.Expr)
    return around if isinstance(made, _TORN) and not isinstance(made, exp.Paren) else made.pop()


def _rename_lambda_names(template: exp.Expr, arguments: Sequence[exp.Expr]) -> None:
    """Rename the parameters of a template's lambda that have the name of a column in the arguments."""
    for function in template.find_all(exp.Lambda):
        named = {column.name.casefold() for a in arguments for column in a.find_all(exp.Column)}
        for parameter in [p.name for p in function.expressions if p.name.casefold() in named]:
            for word in function.find_all(exp.Identifier):
                if word.name == parameter:
                    word.set("this", f"{parameter}_")


@cache
def _parse_template(template: str) -> exp.Expr:
    return parse_one(template, read=TEMPLATE)


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def rename_call(name: str) -> Rewrite:
    """Build the rewrite of a call to one of another name, with the same arguments."""
    return lambda node: call(name, *(argument.copy() for argument in node.expressions))


def wrap_operand(argument: exp.Expr) -> exp.Expr:
    """Put an expression in brackets if it needs them as an operand."""
    return exp.Paren(this=argument) if isinstance(argument, _TORN) and not isinstance(argument, exp.Paren) else argument


def _prepare_argument(argument: exp.Expr, suffix: str | None) -> exp.Expr:
    match suffix:
        case "_literal":
            return _regular_expression(argument)
        case "_plain":
            return _plain_replacement(argument)
        case _:
            return argument


def _regular_expression(text: exp.Expr) -> exp.Expr:
    """Build a regular expression that matches the text literally."""
    if isinstance(text, exp.Literal):
        return exp.Literal.string(re.sub(r"([\\^$.|?*+()\[\]{}])", r"\\\1", text.name))
    return call("CONCAT", exp.Literal.string("\\Q"), text, exp.Literal.string("\\E"))


def _plain_replacement(text: exp.Expr) -> exp.Expr:
    """Build a replacement in which `$` and a backslash are literal."""
    if isinstance(text, exp.Literal):
        return exp.Literal.string(re.sub(r"([\\$])", r"\\\1", text.name))
    return call("REGEXP_REPLACE", text, exp.Literal.string(r"([\\$])"), exp.Literal.string(r"\\$1"))
