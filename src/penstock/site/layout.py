"""Lays out a lineage graph: layers from left to right, few crossings, equal output for equal input. fast-sugiyama (MIT,
a Rust extension without dependencies) does the work. It ends the process on invalid input (an edge from a node to
itself), so `_forward` passes only simple graphs without loops.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

NODE_WIDTH = 204.0
NODE_HEIGHT = 48.0
ROW = NODE_HEIGHT + 20.0
LAYER_GAP = 84.0
WIDEST_GAP = 1600.0
MARGIN = 24.0
FEWEST_COLUMNS = 4
"""Connected parts of a graph are packed side by side up to this many layers."""
MOST_EDGES_FOR_CARE = 4_000
"""Above it, neighbours are not swapped to save single crossings, which would take seconds."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Route:
    """An edge as drawn. `points` are the centres of the places it passes, both ends included."""

    start: str
    end: str
    points: tuple[Point, ...]
    closes_loop: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """The centre and the layer of each node. Layers grow along every route that does not close a loop."""

    width: float
    height: float
    places: Mapping[str, Point]
    layers: Mapping[str, int]
    routes: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class _GraphPart:
    """A connected part in units of layers and rows, beginning at layer 0 and row 0; bends are negative numbers."""

    cells: dict[int, tuple[int, float]]
    chains: dict[tuple[int, int], tuple[int, ...]]

    @property
    def layers(self) -> int:
        return 1 + max(layer for layer, _ in self.cells.values())

    @property
    def rows(self) -> float:
        return 1 + max(row for _, row in self.cells.values())


def layout(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], loose: Collection[tuple[str, str]] = frozenset()
) -> Layout:
    """Lay out a graph. A loop is opened at a `loose` edge, or where a walk in the order of `nodes` closes it."""
    number = {node: index for index, node in enumerate(nodes)}
    wanted = sorted({(number[start], number[end]) for start, end in edges if start != end})
    yielding = {(number[start], number[end]) for start, end in loose}
    forward = _forward(len(nodes), [edge for edge in wanted if edge not in yielding])
    for edge in wanted:
        if edge in yielding and edge[0] not in _reachable_nodes(edge[1], forward):
            forward.add(edge)
    parts = _parts(sorted(forward))
    joined = {index for part in parts for index in part.cells}
    alone = [_GraphPart({index: (0, 0.0)}, {}) for index in range(len(nodes)) if index not in joined]

    cells: dict[int, tuple[int, float]] = {}
    chains: dict[tuple[int, int], tuple[int, ...]] = {}
    height = 0.0
    below = 0
    for part, layer, row in _pack_parts([*parts, *alone]):
        height = max(height, row + part.rows)
        for index, (own_layer, own_row) in part.cells.items():
            cells[index if index >= 0 else index + below] = (own_layer + layer, own_row + row)
        for edge, chain in part.chains.items():
            chains[edge] = tuple(index + below for index in chain)
        # Bends are numbered within their part; the next part's go on from here.
        below -= sum(index < 0 for index in part.cells)

    columns = 1 + max((layer for layer, _ in cells.values()), default=0)
    # A tall graph gets wider gaps: otherwise its lines would be too steep to follow.
    gap = min(max(LAYER_GAP, height * ROW / (3 * columns)), WIDEST_GAP)

    def point(index: int) -> Point:
        layer, row = cells[index]
        x = MARGIN + NODE_WIDTH / 2 + layer * (NODE_WIDTH + gap)
        return round(x, 1), round(MARGIN + NODE_HEIGHT / 2 + row * ROW, 1)

    def route(start: int, end: int) -> Route:
        points = (point(start), *(point(bend) for bend in chains.get((start, end), ())), point(end))
        return Route(nodes[start], nodes[end], points, closes_loop=(start, end) not in forward)

    return Layout(
        width=round(2 * MARGIN + columns * NODE_WIDTH + (columns - 1) * gap, 1) if nodes else 0.0,
        height=round(2 * MARGIN + height * ROW - (ROW - NODE_HEIGHT), 1) if nodes else 0.0,
        places={node: point(index) for node, index in number.items()},
        layers={node: cells[index][0] for node, index in number.items()},
        routes=tuple(route(start, end) for start, end in wanted),
    )


def _forward(count: int, edges: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
    """The edges without those that close a loop, found depth first from the earliest node on."""
    after = defaultdict(list)
    for start, end in edges:
        after[start].append(end)
    kept: set[tuple[int, int]] = set()
    done: set[int] = set()
    for root in range(count):
        if root in done:
            continue
        open_nodes = {root}
        stack = [(root, iter(after[root]))]
        while stack:
            start, ends = stack[-1]
            for end in ends:
                if end in open_nodes:
                    continue
                kept.add((start, end))
                if end not in done:
                    open_nodes.add(end)
                    stack.append((end, iter(after[end])))
                    break
            else:
                stack.pop()
                open_nodes.discard(start)
                done.add(start)
    return kept


def _reachable_nodes(start: int, edges: Collection[tuple[int, int]]) -> set[int]:
    after = defaultdict(list)
    for near, far in edges:
        after[near].append(far)
    reached = {start}
    stack = [start]
    while stack:
        for far in after[stack.pop()]:
            if far not in reached:
                reached.add(far)
                stack.append(far)
    return reached


def _parts(edges: list[tuple[int, int]]) -> list[_GraphPart]:
    """The connected parts that have edges, largest first.

    Each is drawn on its own: over several parts the library gives one number to a node and to a bend.
    """
    from fast_sugiyama import from_edges

    parts = []
    for own_edges in _connected_edges(edges):
        names = sorted({index for edge in own_edges for index in edge})
        number = {name: index for index, name in enumerate(names)}
        [(positions, _, _, links)] = from_edges(
            [(number[start], number[end]) for start, end in own_edges],
            minimum_length=1,
            vertex_spacing=1,
            dummy_vertices=True,
            dummy_size=0.5,
            # All sources on the left. Network simplex ("minimize") draws little better and took 20 s for 1,000 nodes.
            ranking_type="up",
            crossing_minimization="barycenter",
            transpose=len(edges) <= MOST_EDGES_FOR_CARE,
        )
        middles = {int(index): (float(x), float(y)) for index, (x, y) in positions}
        parts.append(_part(middles, [(int(start), int(end)) for start, end in links or ()], names))
    return sorted(parts, key=lambda part: (-len(part.cells), min(index for index in part.cells if index >= 0)))


def _connected_edges(edges: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The edges by the part that they belong to, in order of each part's first edge."""
    beside = defaultdict(list)
    for start, end in edges:
        beside[start].append(end)
        beside[end].append(start)
    part_of: dict[int, int] = {}
    for root in beside:
        stack = [] if root in part_of else [root]
        while stack:
            index = stack.pop()
            if index not in part_of:
                part_of[index] = root
                stack.extend(beside[index])
    parts = defaultdict(list)
    for edge in edges:
        parts[part_of[edge[0]]].append(edge)
    return list(parts.values())


def _part(positions: dict[int, Point], links: list[tuple[int, int]], names: list[int]) -> _GraphPart:
    top = min(x for x, _ in positions.values())
    layer_of = {y: layer for layer, y in enumerate(sorted({y for _, y in positions.values()}, reverse=True))}
    bends = sorted(index for index in positions if index >= len(names))
    new = {index: names[index] for index in positions if index < len(names)}
    new |= {index: -1 - position for position, index in enumerate(bends)}
    after = {start: end for start, end in links if start >= len(names)}

    chains = {}
    for start, end in links:
        if start >= len(names):
            continue
        chain = []
        while end >= len(names):
            chain.append(new[end])
            end = after[end]
        chains[new[start], new[end]] = tuple(chain)
    cells = {new[index]: (layer_of[y], x - top) for index, (x, y) in positions.items()}
    return _GraphPart(cells, chains)


def _pack_parts(parts: Sequence[_GraphPart]) -> Iterator[tuple[_GraphPart, int, float]]:
    """Each part with its first layer and row: parts fill a shelf from left to right, then the next shelf below."""
    widest = max([FEWEST_COLUMNS, *(part.layers for part in parts)])
    layer, row, tallest = 0, 0.0, 0.0
    for part in parts:
        if layer + part.layers > widest:
            layer, row, tallest = 0, row + tallest, 0.0
        yield part, layer, row
        layer += part.layers
        tallest = max(tallest, part.rows)
