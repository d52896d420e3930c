"""A lineage graph as shapes for the SVG of a page. assets/graph.js adds the behaviour."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.site.layout import NODE_HEIGHT, NODE_WIDTH, Point, Route, layout
from penstock.site.links import Links
from penstock.site.model import SiteNode

NAME_CELLS = 21
LABEL_CELLS = 26


@dataclass(frozen=True, slots=True)
class Box:
    number: int
    node: SiteNode
    x: float
    y: float
    name: str
    label: str
    page: str


@dataclass(frozen=True, slots=True)
class Line:
    start: int
    end: int
    path: str
    closes_loop: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Numbers are positions in the site's list of nodes, the same as in assets/data.js."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    box_width: float = NODE_WIDTH
    box_height: float = NODE_HEIGHT


def draw(links: Links, shown: Sequence[str]) -> Drawing:
    """The nodes in `shown`, which are in the order of the site, and all edges between them."""
    number = links.numbers
    inside = set(shown)
    edges = [(start, end) for start in shown for end in links.after[start] if end in inside]
    # A source that an exposure writes stays a source: on the left, with a line that leads back to it.
    written_back = {(start, end) for start, end in edges if links.nodes[start].kind == "exposure"}
    placed = layout(shown, edges, loose=written_back)
    boxes = []
    for node_id in shown:
        node = links.nodes[node_id]
        x, y = placed.places[node_id]
        left, top = round(x - NODE_WIDTH / 2, 1), round(y - NODE_HEIGHT / 2, 1)
        name, label = shorten(node.name, NAME_CELLS), shorten(node.label or node.kind, LABEL_CELLS)
        boxes.append(Box(number[node_id], node, left, top, name, label, links.pages[node_id]))
    lines = tuple(
        Line(number[route.start], number[route.end], _path(route), route.closes_loop) for route in placed.routes
    )
    return Drawing(placed.width, placed.height, tuple(boxes), lines)


def shorten(text: str, cells: int) -> str:
    """The part of the text that fits on one line. East Asian letters take two cells, combining marks none."""
    line = " ".join(text.split())
    widths = [
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in line
    ]
    if sum(widths) <= cells:
        return line
    used = kept = 0
    while used + widths[kept] < cells:
        used += widths[kept]
        kept += 1
    return line[:kept] + "…"


def _path(route: Route) -> str:
    """The path from the right side of one box to the left side of another, level where it passes a layer."""
    half = NODE_WIDTH / 2
    (x, y), *_, (end_x, end_y) = route.points
    x, end_x = x + half, end_x - half
    if route.closes_loop:
        under = max(y, end_y) + NODE_HEIGHT * 1.5
        return f"M{x:g} {y:g}C{x + 90:g} {under:g} {end_x - 90:g} {under:g} {end_x:g} {end_y:g}"
    path = f"M{x:g} {y:g}"
    for bend_x, bend_y in route.points[1:-1]:
        path += _curve((x, y), (bend_x - half, bend_y)) + f"H{bend_x + half:g}"
        x, y = bend_x + half, bend_y
    return path + _curve((x, y), (end_x, end_y))


def _curve(start: Point, end: Point) -> str:
    middle = round((start[0] + end[0]) / 2, 1)
    return f"C{middle:g} {start[1]:g} {middle:g} {end[1]:g} {end[0]:g} {end[1]:g}"
