"""Operators whose meaning in Flink depends on types, which the analysis finds and the translation needs.

An analysis is a plain value: it stores the types by the paths of their nodes in the tree. The tree that is translated
is parsed from the same text, so its nodes have the same paths. A path that it lacks is an error.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from sqlglot import exp

from penstock.sql.types.flink_inference import WHOLE_NAMES

_CLASSES: Final = (exp.Bracket, exp.Div, exp.Avg, exp.Floor, exp.Ceil, exp.TimestampAdd, exp.Unnest, exp.Anonymous)
_NAMES: Final = frozenset(
    {"TRUNCATE", "TO_TIMESTAMP_MICROS", "TO_TIMESTAMP_MILLIS", "TO_TIMESTAMP_NANOS", "TO_TIMESTAMP_SECONDS"}
)
_PLACE: Final = "place"
_KIND: Final = "kind"


def _typed_nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    nodes = tree.find_all(*_CLASSES)
    return (n for n in nodes if not isinstance(n, exp.Anonymous) or n.name.upper() in _NAMES)


def mark_operands(tree: exp.Query) -> None:
    """Store the path of each node in the node, which identifies it after the tree has changed."""
    for node in _typed_nodes(tree):
        node.meta[_PLACE] = _node_path(node)


def operand_kinds(tree: exp.Expr, type_of: Callable[[exp.Expr], str | None]) -> dict[str, str]:
    """Return the known operand types by the paths that their nodes had in the original tree."""
    found: dict[str, str] = {}
    for node in _typed_nodes(tree):
        if (place := node.meta.get(_PLACE)) is not None:
            types = [type_of(operand) for operand in _operands(node)]
            kind = _division_kind(types) if isinstance(node, exp.Div) else next(iter(types), None)
            if kind is not None:
                found[place] = kind
            else:
                found.pop(place, None)
    return found


def _node_path(node: exp.Expr) -> str:
    """Return the path of a node below the root, and its class: `where.this.expressions[1] Div`."""
    steps, at = list[str](), node
    while at.parent is not None:
        steps.append(f"{at.arg_key}" if at.index is None else f"{at.arg_key}[{at.index}]")
        at = at.parent
    return f"{'.'.join(reversed(steps))} {type(node).__name__}"


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
    """Return the type that decides how a division works: an operand that is not an integer, or the wider integer."""
    known = [kind for kind in types if kind is not None]
    broken = next((kind for kind in known if kind not in WHOLE_NAMES), None)
    return broken or (max(known, key=WHOLE_NAMES.index) if len(known) == len(types) > 0 else None)


def set_kind(node: exp.Expr, kind: str) -> exp.Expr:
    """Set the operand type of a node, and return the node."""
    node.meta[_KIND] = kind
    return node


def kinds_edit(kinds: Mapping[str, str]) -> Callable[[exp.Query], exp.Query]:
    """Build an edit that sets the operand types of the nodes in a tree that was parsed from the same text."""

    def edit(tree: exp.Query) -> exp.Query:
        nodes = {_node_path(node): node for node in _typed_nodes(tree)} if kinds else {}
        for place, kind in kinds.items():
            nodes[place].meta[_KIND] = kind
        return tree

    return edit


def operand_kind(node: exp.Expr) -> str | None:
    """Return the type of a node's operand; None if it is not known."""
    found = node.meta.get(_KIND)
    return found if isinstance(found, str) else None
