"""Numbers in SQL: as a literal, in quotes, or with a sign."""

import re
from decimal import Decimal
from typing import Final

from sqlglot import exp


def int_literal(node: exp.Expr) -> int | None:
    """Return the integer of a literal, as a number or in quotes; None for other nodes."""
    match node:
        case exp.Paren():
            return int_literal(node.this)
        case exp.Cast(this=exp.Literal()) if _is_lossless(node):
            return int_literal(node.this)
        case exp.Neg():
            found = int_literal(node.this)
            return None if found is None else -found
        case exp.Literal() if node.name.lstrip("-").isdecimal() and node.name.isascii() and len(node.name) < _LONGEST:
            return int(node.name)
        case _:
            return None


_LONGEST: Final = 1000


def decimal_literal(node: exp.Expr) -> Decimal | None:
    """Return the number of a literal, with or without a fraction, as a number or in quotes; None for other nodes."""
    match node:
        case exp.Paren():
            return decimal_literal(node.this)
        case exp.Neg():
            found = decimal_literal(node.this)
            return None if found is None else -found
        case exp.Literal() if _NUMBER.fullmatch(node.name) and len(node.name) < _LONGEST:
            return Decimal(node.name)
        case exp.Cast(this=exp.Literal()) if _is_lossless(node):
            return decimal_literal(node.this)
        case _:
            return None


_NUMBER: Final = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)


def _is_lossless(cast: exp.Cast) -> bool:
    """Whether a cast keeps its number. The parser adds such casts around numbers that are longer than an INT."""
    if cast.to.this is exp.DType.BIGINT:
        return len(cast.this.name) <= _BIGINT_DIGITS
    sizes = [int(size.name) for size in cast.to.expressions] if cast.to.this is exp.DType.DECIMAL else []
    return len(sizes) == 2 and sizes[1] == 0 and len(cast.this.name) <= sizes[0]


_BIGINT_DIGITS: Final = 18
