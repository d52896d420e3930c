"""The order of queries."""

from collections.abc import Collection

from penstock.manifest.model import Manifest, QuerySpec


def upstream(queries: Collection[QuerySpec]) -> dict[str, tuple[str, ...]]:
    """The queries that each query reads from."""
    writer = {output.node: query.name for query in queries for output in query.outputs}
    read = {query.name: (writer[entry.node] for entry in query.inputs if entry.node in writer) for query in queries}
    return {name: tuple(dict.fromkeys(writers)) for name, writers in read.items()}


def reads_from(manifest: Manifest, query: QuerySpec, names: Collection[str]) -> bool:
    """Whether a query reads what one of these queries writes, directly or through others."""
    writers = (manifest.producer(entry.node) for entry in query.inputs)
    return any(w.name in names or reads_from(manifest, w, names) for w in writers if w is not None)


def waves(queries: Collection[QuerySpec]) -> list[list[QuerySpec]]:
    """Groups of queries: each group reads only from earlier ones."""
    before = upstream(queries)
    depth: dict[str, int] = {}
    for query in queries:
        depth[query.name] = 1 + max((depth[name] for name in before[query.name]), default=-1)
    deepest = max(depth.values(), default=-1)
    return [[q for q in queries if depth[q.name] == level] for level in range(deepest + 1)]
