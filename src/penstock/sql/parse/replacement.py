"""Replacement of tree nodes at a cost that does not grow with the number of siblings."""

from sqlglot import exp


def replace_node(node: exp.Expr, other: exp.Expr) -> None:
    """Replace a node by another one.

    `Expr.replace` renumbers all entries of the list that contains the node, so that replacing every entry of a long
    list takes quadratic time.
    """
    parent, key, index = node.parent, node.arg_key, node.index
    entries = parent.args.get(key) if parent is not None and key is not None else None
    if (
        not isinstance(entries, list)
        or index is None
        or index >= len(entries)
        or entries[index] is not node
        or parent is other
    ):
        node.replace(other)
        return
    around: exp.Expr | None = parent
    while around is not None and around._hash is not None:
        around._hash = None
        around = around.parent
    entries[index] = other
    other.parent, other.arg_key, other.index = parent, key, index
    node.parent, node.arg_key, node.index = None, None, None
