"""Functions of Flink SQL as Spark SQL: the texts. `tests/spark/test_flink_functions.py` runs them."""

from pathlib import Path

import pytest
import yaml
from sqlglot import exp

from penstock.sql.catalog.flink_functions import SPECIAL, TABLE
from penstock.sql.parse.dialects import PROJECT
from penstock.sql.parse.query import Query
from penstock.sql.rewrite.operators import OPERATORS
from tests.flink import FILE, Fixture, analysed, differences, fixtures, translated


def test_each_expression_becomes_the_spark_sql_of_its_fixture(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        _write_anew()
    found = {fixture.flink: translated(fixture) for fixture in fixtures()}
    assert found == {fixture.flink: fixture.spark for fixture in fixtures()}


def _write_anew() -> None:
    head = FILE.read_text(encoding="utf-8").partition("\n\n")[0]
    groups = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for group in groups.values():
        for fields in group:
            fields["spark"] = translated(Fixture(**fields))
    fixtures.cache_clear()
    body = yaml.safe_dump(groups, sort_keys=False, allow_unicode=True, width=10_000)
    FILE.write_text(f"{head}\n\n{body}", encoding="utf-8")


def test_every_function_and_operator_with_a_rule_has_a_fixture() -> None:
    trees = [Query(fixture.text, PROJECT).tree for fixture in fixtures()]
    calls = {node.name.upper() for tree in trees for node in tree.find_all(exp.Anonymous)}
    assert TABLE.keys() - calls == set()
    classes = {type(node) for tree in trees for node in tree.walk()}
    assert OPERATORS.keys() - classes == {exp.ILike}, "ILIKE shares its rule with LIKE"


def test_the_documentation_has_every_difference() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")
    assert [fixture.flink for fixture, _ in differences() if f"`{fixture.flink}`" not in text] == []
    assert [fixture.flink for fixture, otherwise in differences() if repr(otherwise) == repr(fixture.gives)] == []


def test_every_number_of_arguments_has_a_fixture() -> None:
    trees = [Query(fixture.text, PROJECT).tree for fixture in fixtures()]
    used = {(node.name.upper(), len(node.expressions)) for tree in trees for node in tree.find_all(exp.Anonymous)}
    counted = {(name, f.min_arguments + more) for name, f in TABLE.items() for more in range(len(f.spark))}
    assert counted - used == set()


def test_functions_with_a_syntax_of_their_own_have_fixtures() -> None:
    written = " ".join(fixture.flink.upper() for fixture in fixtures())
    assert [name for name in sorted(SPECIAL) if f"{name}(" not in written and f"{name}[" not in written] == [
        "DESCRIPTOR"
    ]


@pytest.mark.parametrize("fixture", [f for f in fixtures() if f.type], ids=lambda f: f.flink)
def test_the_type_is_the_one_that_flink_gives(fixture: Fixture) -> None:
    columns = analysed(fixture).columns
    assert columns is not None
    assert columns[0].type in (fixture.type, None)
