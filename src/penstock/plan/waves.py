"""Which queries come before which."""

from collections.abc import Collection

from penstock.manifest.model import QuerySpec


def waves(queries: Collection[QuerySpec]) -> list[list[QuerySpec]]:
    """Queries in groups: each group reads only from those before it."""
    writer = {output.node: query.name for query in queries for output in query.outputs}
    depth: dict[str, int] = {}
    for query in queries:
        upstream = [writer[i.node] for i in query.inputs if i.node in writer]
        depth[query.name] = 1 + max((depth[name] for name in upstream), default=-1)
    deepest = max(depth.values(), default=-1)
    return [[q for q in queries if depth[q.name] == level] for level in range(deepest + 1)]
