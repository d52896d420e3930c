from penstock.graph.topological_order import sort_topologically


def test_every_node_comes_after_those_it_reads_from() -> None:
    ordered, cycles = sort_topologically({"d": ["b", "c"], "c": ["a"], "b": ["a"], "a": []})
    assert ordered == ["a", "b", "c", "d"]
    assert cycles == []


def test_nodes_that_do_not_depend_on_each_other_keep_their_order() -> None:
    assert sort_topologically({"b": [], "a": [], "c": []})[0] == ["b", "a", "c"]


def test_inputs_from_outside_are_passed_over() -> None:
    assert sort_topologically({"a": ["source.x"]}) == (["a"], [])


def test_a_circle_is_given_as_the_path_that_closes_it() -> None:
    ordered, cycles = sort_topologically({"a": ["b"], "b": ["c"], "c": ["b"], "d": ["c"], "e": []})
    assert cycles == [["b", "c", "b"]]
    assert ordered == ["a", "d", "e"]


def test_a_node_that_reads_itself_is_a_circle() -> None:
    assert sort_topologically({"a": ["a"]}) == ([], [["a", "a"]])


def test_two_circles_are_two() -> None:
    assert sort_topologically({"a": ["b"], "b": ["a"], "x": ["y"], "y": ["x"]})[1] == [["a", "b", "a"], ["x", "y", "x"]]


def test_a_chain_of_ten_thousand_is_no_problem() -> None:
    chain = {str(n): [str(n + 1)] for n in range(10_000)}
    ordered, cycles = sort_topologically(chain)
    assert cycles == []
    assert ordered[-1] == "0"
