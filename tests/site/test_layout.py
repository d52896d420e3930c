import os
import random
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise

import pytest

from penstock.site.layout import NODE_HEIGHT, NODE_WIDTH, Layout, layout
from tests.site.projects import large


def overlapping(placed: Layout) -> list[tuple[str, str]]:
    columns = defaultdict(list)
    for node, (x, y) in placed.places.items():
        columns[x].append((y, node))
    return [
        (upper, lower)
        for column in columns.values()
        for (y, upper), (below, lower) in pairwise(sorted(column))
        if below - y < NODE_HEIGHT
    ]


def assert_sound(placed: Layout) -> None:
    assert overlapping(placed) == []
    xs = sorted({x for x, _ in placed.places.values()})
    assert all(right - left > NODE_WIDTH for left, right in pairwise(xs))
    for node, (x, y) in placed.places.items():
        assert NODE_WIDTH / 2 <= x <= placed.width - NODE_WIDTH / 2, node
        assert NODE_HEIGHT / 2 <= y <= placed.height - NODE_HEIGHT / 2, node
    for route in placed.routes:
        assert route.points[0] == placed.places[route.start]
        assert route.points[-1] == placed.places[route.end]
        if not route.closes_loop:
            assert len(route.points) == placed.layers[route.end] - placed.layers[route.start] + 1 >= 2


def test_no_nodes_take_no_room() -> None:
    assert layout([], []) == Layout(0.0, 0.0, {}, {}, ())


def test_one_node_has_a_place() -> None:
    placed = layout(["a"], [])
    assert_sound(placed)
    assert placed.layers == {"a": 0}


def test_a_node_that_leads_to_itself_is_drawn_without_that_edge() -> None:
    placed = layout(["a", "b"], [("a", "a"), ("a", "b"), ("a", "b")])
    assert [(route.start, route.end) for route in placed.routes] == [("a", "b")]


def test_parts_without_a_connection_do_not_overlap() -> None:
    nodes = [f"n{index}" for index in range(40)]
    assert_sound(layout(nodes, [(nodes[index], nodes[index + 1]) for index in range(0, 30, 3)]))


def test_a_loop_is_opened_at_the_loose_edge() -> None:
    edges = [("other", "model"), ("source", "model"), ("model", "exposure"), ("exposure", "source")]
    placed = layout(["other", "source", "model", "exposure"], edges, loose={("exposure", "source")})
    assert_sound(placed)
    assert [(r.start, r.end) for r in placed.routes if r.closes_loop] == [("exposure", "source")]


def test_a_loose_edge_that_closes_no_loop_counts_like_any_other() -> None:
    placed = layout(["a", "b"], [("a", "b")], loose={("a", "b")})
    assert placed.layers["a"] < placed.layers["b"]
    assert not placed.routes[0].closes_loop


@pytest.mark.parametrize("seed", range(30))
def test_layers_grow_along_edges_and_nothing_overlaps(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [f"n{index}" for index in range(chance.choice([2, 5, 12, 40, 90]))]
    edges = [(chance.choice(nodes), chance.choice(nodes)) for _ in range(chance.randrange(2 * len(nodes)))]
    placed = layout(nodes, edges)
    assert_sound(placed)
    assert {(route.start, route.end) for route in placed.routes} == {edge for edge in edges if edge[0] != edge[1]}


def test_a_thousand_nodes_are_placed_soundly() -> None:
    site = large(1000, 2500)
    placed = layout([node.id for node in site.nodes], site.edges)
    assert_sound(placed)
    assert len(placed.routes) == 2500


def test_each_process_draws_the_same() -> None:
    """Hashes differ from process to process, in Python as in Rust; the drawing must not."""
    code = (
        "from penstock.site.layout import layout; from tests.site.projects import large; import hashlib;"
        "s = large(150, 300); p = layout([n.id for n in s.nodes], s.edges);"
        "print(hashlib.sha256(repr(p).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(digests) == 1
