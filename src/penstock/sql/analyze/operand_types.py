"""Operators whose meaning in Flink depends on types: what `validate` finds out is told to the tree that is translated.

A study keeps the kinds in the order of the nodes in the tree. The tree that is translated is parsed from the same
text, so its nodes come in the same order.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlglot import exp

from penstock.sql.types.flink_inference import WHOLE_NAMES

_CLASSES: Final = (exp.Bracket, exp.Div, exp.Avg, exp.Floor, exp.Ceil, exp.TimestampAdd, exp.Unnest, exp.Anonymous)
_NAMES: Final = frozenset(
    {"TRUNCATE", "TO_TIMESTAMP_MICROS", "TO_TIMESTAMP_MILLIS", "TO_TIMESTAMP_NANOS", "TO_TIMESTAMP_SECONDS"}
)
_PLACE: Final = "operand"
_KIND: Final = "kind"


def _typed_nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    nodes = tree.find_all(*_CLASSES)
    return (n for n in nodes if not isinstance(n, exp.Anonymous) or n.name.upper() in _NAMES)


def number_operands(tree: exp.Query) -> int:
    """Number the nodes, so that they are known again when the tree has been changed; how many there are."""
    count = 0
    for count, node in enumerate(_typed_nodes(tree), 1):
        node.meta[_PLACE] = count - 1
    return count


def operand_kinds(tree: exp.Expr, count: int, type_of: Callable[[exp.Expr], str | None]) -> tuple[str | None, ...]:
    """The types of the operands, in the order of their numbers."""
    found: list[str | None] = [None] * count
    for node in _typed_nodes(tree) if count else ():
        if (place := node.meta.get(_PLACE)) is not None:
            types = [type_of(operand) for operand in _operands(node)]
            found[place] = _division_kind(types) if isinstance(node, exp.Div) else next(iter(types), None)
    return tuple(found)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    match node:
        case exp.Div():
            return [node.this, node.expression]
        case exp.Unnest() | exp.Anonymous() | exp.Avg(this=exp.Distinct()):
            holder = node.this if isinstance(node, exp.Avg) else node
            return list(holder.expressions[:1])
        case _:
            return [node.this]


def _division_kind(types: Sequence[str | None]) -> str | None:
    """What decides on a division: an operand that is no whole number, or else the wider of two whole ones."""
    known = [kind for kind in types if kind is not None]
    broken = next((kind for kind in known if kind not in WHOLE_NAMES), None)
    return broken or (max(known, key=WHOLE_NAMES.index) if len(known) == len(types) > 0 else None)


def set_kind(node: exp.Expr, kind: str) -> exp.Expr:
    """Write a kind to a node, and return the node."""
    node.meta[_KIND] = kind
    return node


def kinds_edit(kinds: Sequence[str | None]) -> Callable[[exp.Query], exp.Query]:
    """An edit that writes the kinds to their nodes."""

    def edit(tree: exp.Query) -> exp.Query:
        for node, kind in zip(_typed_nodes(tree), kinds, strict=False):
            if kind is not None:
                node.meta[_KIND] = kind
        return tree

    return edit


def operand_kind(node: exp.Expr) -> str | None:
    """The type of a node's operand, where it is known."""
    found = node.meta.get(_KIND)
    return found if isinstance(found, str) else None
