"""Limits of how deep SQL may be nested."""

import re
from typing import Final

from sqlglot import exp

MAX_DEPTH: Final = 1000
"""The maximum depth of nodes. Spark's own parser and planner fail not far above it."""
MAX_BRACKETS: Final = 200
"""The maximum depth of calls, brackets, subqueries and types. Each takes several calls of parser and generator."""
MAX_TYPES: Final = 50
"""The maximum depth of types, because the time to parse them grows faster than their number."""


def type_depth(text: str) -> int:
    """Estimate how deep types such as `ARRAY<…>` are nested. Comparison operators may lower the estimate."""
    depth = deepest = 0
    for mark in _ANGLES.finditer(text):
        depth = depth + 1 if mark[0] != ">" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


_ANGLES: Final = re.compile(r"\b(?:ARRAY|MAP|MULTISET|ROW|STRUCT)\s*<|>", re.IGNORECASE)


def exceeded_depth(tree: exp.Expr) -> int | None:
    """Return the limit that SQL exceeds; None if it exceeds none. Nodes of `a + b + c` count as nested, too."""
    depths: dict[int, tuple[int, int]] = {}
    for node in tree.walk():
        nodes, brackets = depths.get(id(node.parent), (0, 0))
        is_plain = isinstance(node, _PLAIN) or not isinstance(node, _BRACKETED)
        weight = 0 if is_plain else MAX_BRACKETS // MAX_TYPES if isinstance(node, _MAKING_TYPES) else 1
        depths[id(node)] = nodes + 1, brackets + weight
    if max(nodes for nodes, _ in depths.values()) > MAX_DEPTH:
        return MAX_DEPTH
    return MAX_BRACKETS if max(brackets for _, brackets in depths.values()) > MAX_BRACKETS else None


_BRACKETED: Final = (exp.Func, exp.Paren, exp.Subquery, exp.DataType)
_MAKING_TYPES: Final = (exp.Array, exp.Map, exp.Struct, exp.VarMap)
_PLAIN: Final = (exp.Binary, exp.If)
