"""Sorts nodes so that each comes after its inputs, or finds the cycles."""

from collections.abc import Mapping, Sequence


def sort_topologically(inputs: Mapping[str, Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The nodes in a stable order, and each cycle as a closed path. Nodes of a cycle are left out."""
    ordered: list[str] = []
    cycles: list[list[str]] = []
    state: dict[str, str] = {}
    for start in inputs:
        if start in state:
            continue
        path: list[str] = []
        stack: list[tuple[str, int]] = [(start, 0)]
        while stack:
            node, position = stack.pop()
            if position == 0:
                state[node] = "open"
                path.append(node)
            ahead = [n for n in inputs[node] if n in inputs]
            if position < len(ahead):
                stack.append((node, position + 1))
                following = ahead[position]
                if following not in state:
                    stack.append((following, 0))
                elif state[following] == "open":
                    cycles.append([*path[path.index(following) :], following])
            else:
                state[node] = "done"
                path.pop()
                ordered.append(node)
    caught = {node for cycle in cycles for node in cycle}
    return [node for node in ordered if node not in caught], cycles
