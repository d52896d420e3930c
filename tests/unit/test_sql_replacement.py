"""Nodes that are put in the place of others: the tree stays whole, and what stands beside them is left alone."""

from sqlglot import exp, parse_one

from penstock.sql.parse.replacement import replace_node
from penstock.sql.types.inference_overrides import insert_type_casts


def listed(tree: exp.Expr) -> list[exp.Expr]:
    found = tree.find(exp.In)
    assert found is not None
    return list(found.expressions)


def test_an_entry_of_a_list_is_replaced_without_a_look_at_the_others() -> None:
    tree = parse_one("SELECT a FROM t WHERE a IN (1, 2, 3)")
    before = hash(tree)
    first, second, third = listed(tree)
    third.index = 99  # whoever numbers the whole list would put this right
    replace_node(second, exp.Literal.string("x"))
    assert tree.sql() == "SELECT a FROM t WHERE a IN (1, 'x', 3)"
    made = listed(tree)[1]
    assert (made.parent, made.arg_key, made.index) == (first.parent, "expressions", 1)
    assert (second.parent, second.arg_key, second.index, third.index) == (None, None, None, 99)
    assert hash(tree) != before


def test_a_single_argument_and_a_misnumbered_entry_are_replaced_too() -> None:
    tree = parse_one("SELECT a FROM t WHERE a IN (1, 2, 3) AND b = 1")
    equal = tree.find(exp.EQ)
    assert equal is not None
    replace_node(equal.expression, exp.Literal.number(7))
    replace_node(equal, parse_one("c > 0"))
    assert tree.sql() == "SELECT a FROM t WHERE a IN (1, 2, 3) AND c > 0"


def test_types_of_numbers_are_written_around_each_entry() -> None:
    tree = parse_one("SELECT a FROM t WHERE a IN (1.5, 2, 1e3)")
    insert_type_casts(tree, {})
    expected = "SELECT a FROM t WHERE a IN (CAST(1.5 AS DECIMAL(2, 1)), 2, CAST(1e3 AS DOUBLE))"
    assert tree.sql() == expected
    assert all(node.parent is not None for node in tree.walk() if node is not tree)
