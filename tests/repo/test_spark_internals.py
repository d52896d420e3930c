"""One room knows what is inside Spark and PySpark: the place to mend when Spark changes."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

SOURCE = Path(penstock.__file__).parent
ROOM = SOURCE / "spark_internals"
MODULES = re.compile(r"py4j(\.|$)|pyspark\.(java_gateway|find_spark_home)(\.|$)|pyspark(\.\w+)*\._")
JAVA_NAMES = re.compile(r"(org\.apache|org\.codehaus|java\.|scala\.)")
"""Where a class of Java is named in code. Settings of Spark name some too, as values."""
ATTRIBUTES = re.compile(
    r"_j[a-z]\w*|_gateway|_active_spark_context|_accumulatorServer|_sc|_origin|_desc|_ssql_ctx|_java_\w+"
    r"|queryExecution|executedPlan|streamingQuery|sessionState"
)
OF_OURS = {"self", "__self", "cls", "found"}
"""What such an attribute may belong to: an object of our own that has one of that name."""


def uses(tree: ast.AST) -> Iterator[str]:
    """What a module names of the insides of Spark. Texts and comments may speak of it."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names if MODULES.match(name.name))
            case ast.ImportFrom(module=str() as module, names=names):
                whole = [f"{module}.{name.name}" for name in names] if module.startswith("pyspark") else [module]
                yield from filter(MODULES.match, whole)
            case ast.Attribute(value=value, attr=attribute) if ATTRIBUTES.fullmatch(attribute):
                if not (isinstance(value, ast.Name) and value.id in OF_OURS):
                    yield attribute
            case ast.Attribute() if JAVA_NAMES.match(ast.unparse(node).partition(".")[2]):
                yield ast.unparse(node)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str() as name), *_]):
                if ATTRIBUTES.fullmatch(name) or JAVA_NAMES.match(name):
                    yield name


def test_no_other_room_names_what_is_inside_spark() -> None:
    found = {
        f"{path.relative_to(SOURCE)}: {use}"
        for path in SOURCE.rglob("*.py")
        if ROOM not in path.parents
        for use in uses(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


def test_every_module_of_the_room_is_in_its_list() -> None:
    docstring = ast.get_docstring(ast.parse((ROOM / "__init__.py").read_text(encoding="utf-8"))) or ""
    listed = set(re.findall(r"^\| `(\w+)` \|", docstring, re.MULTILINE))
    assert listed == {path.stem for path in ROOM.glob("*.py")} - {"__init__"}


@pytest.mark.parametrize(
    "code",
    [
        "import py4j.protocol",
        "from py4j.java_gateway import JavaGateway",
        "from pyspark.java_gateway import launch_gateway",
        "from pyspark.sql._typing import ColumnOrName",
        "from pyspark.find_spark_home import _find_spark_home",
        "frame._jdf",
        "spark.sparkContext._jsc.sc()",
        "query._jsq.streamingQuery()",
        "SparkContext._gateway",
        "jvm.org.apache.spark.sql.Encoders",
        "getattr(frame, '_jdf')",
    ],
)
def test_internals_are_recognised(code: str) -> None:
    assert list(uses(ast.parse(code)))
