"""Messages for the parser's errors."""

import re
from typing import Final

from sqlglot import exp

from penstock.sql.catalog.function_names import class_name


def argument_count_error(description: str) -> str | None:
    """Describe the parser's error about a call with too many or too few arguments; None for other errors."""
    if found := _TOO_MANY.search(description):
        return f"the function takes {found[2]} argument{'s' * (found[2] != '1')}, and is given {found[1]}"
    kind = _incomplete_class(description)
    if kind is not None and issubclass(kind, exp.Func) and not issubclass(kind, exp.Cast | exp.Binary):
        return f"an argument of {class_name(kind)} is missing"
    return None


_TOO_MANY: Final = re.compile(r"number of provided arguments \((\d+)\) is greater than .* \((\d+)\)")
_MISSING: Final = re.compile(r"Required keyword: '(\w+)' missing for <class '[\w.]*?(\w+)'>")


def _incomplete_class(description: str) -> type[exp.Expr] | None:
    """Return the class of the incomplete node in the parser's error."""
    found = _MISSING.match(description)
    kind = getattr(exp, found[2], None) if found else None
    return kind if isinstance(kind, type) and issubclass(kind, exp.Expr) else None


def describe_error(description: object) -> str:
    """Describe the parser's error without the names of its classes."""
    text = str(description or "the SQL cannot be parsed")
    if (kind := _incomplete_class(text)) is not None:
        return f"something is missing in {class_name(kind)}"
    if text.startswith("Invalid expression"):
        return "unexpected word"
    if "<" in text:
        return "the SQL ends too early"
    return text[:1].lower() + text[1:]
