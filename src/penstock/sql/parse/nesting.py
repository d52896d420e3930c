"""How deep SQL may be nested."""

import re
from typing import Final

from sqlglot import exp

MAX_DEPTH: Final = 1000
"""How deep SQL may be nested: Spark's own parser and planner come to an end not far behind that."""
MAX_BRACKETS: Final = 200
"""How many calls, brackets, subqueries and types may stand within each other: each takes several calls of the parser's
and of the writer's functions."""
MAX_TYPES: Final = 50
"""How many types may stand within each other: the time to parse them grows faster than their number."""


def type_depth(text: str) -> int:
    """About how many types such as `ARRAY<…>` stand within each other. Comparisons may make it less."""
    depth = deepest = 0
    for mark in _ANGLES.finditer(text):
        depth = depth + 1 if mark[0] != ">" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


_ANGLES: Final = re.compile(r"\b(?:ARRAY|MAP|MULTISET|ROW|STRUCT)\s*<|>", re.IGNORECASE)


def exceeded_depth(tree: exp.Expr) -> int | None:
    """The bound that SQL exceeds, if any. Nodes of `a + b + c` stand within each other, too."""
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
