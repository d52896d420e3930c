"""What all tests share: one Spark session per worker, services that all workers use, and the order of the tests."""

import fcntl
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.process.cli import Inside

Service = TypeVar("Service")

SERVICES: Final = "services"
"""The directory of the services that all workers share, below the temporary directory of the whole run."""
WAITING: Final = ("services",)
"""Directories whose tests wait for a service half of the time. They run beside those that compute."""
COMPUTING: Final = ("process", "contract", "spark")
LONG: Final = (
    "test_time_bounds.py",
    "test_differential.py",
    "test_state_schema.py",
    "test_windows.py",
    "test_sinks.py",
)
"""Files that take a minute or more of one worker. They begin first."""
QUICK: Final = ("site", "repo", "golden", "unit")
"""Directories whose tests are short. They come last, so that the workers end together."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the expected outputs of golden cases anew")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that need Spark, so that the others can run without Java."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Alternate files that wait with files that compute, and put quick ones last."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.location[0], []).append(item)
    waiting, computing, quick = (_in_directories(files, names) for names in (WAITING, COMPUTING, QUICK))
    shares = [(place / len(group), file) for group in (waiting, computing) for place, file in enumerate(group)]
    items[:] = [item for file in (*(file for _, file in sorted(shares)), *quick) for item in files[file]]


def _in_directories(files: Iterable[str], names: Sequence[str]) -> list[str]:
    """The files in these directories of `tests`: long ones, then the others in the order of the directories."""
    found = [file for file in files if _directory(file) in names]
    return sorted(found, key=lambda file: (Path(file).name not in LONG, names.index(_directory(file))))


def _directory(file: str) -> str:
    return Path(file).parts[1]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the services that the workers shared, when the last worker is done."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    from penstock.dev import processes

    folder = _run_directory(session.config._tmp_path_factory) / SERVICES  # type: ignore[attr-defined]
    for home in sorted(folder.iterdir()) if folder.exists() else ():
        if home.is_dir():
            processes.stop(home)


def _run_directory(factory: pytest.TempPathFactory) -> Path:
    """The temporary directory of the whole run; that of a worker lies below it."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def share(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], Any]], Any]:
    """Start a service once per run: the first worker that asks for it starts it in a directory, the others wait."""
    folder = _run_directory(tmp_path_factory) / SERVICES
    folder.mkdir(exist_ok=True)

    def find_or_start(name: str, start: Callable[[Path], Service]) -> Service:
        about = folder / f"{name}.pickle"
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not about.exists():
                about.write_bytes(pickle.dumps(start(folder / name)))
            found: Service = pickle.loads(about.read_bytes())
            return found

    return find_or_start


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from penstock.clients.jvm.maven import fetch
    from penstock.clients.jvm.packages import KAFKA, POSTGRES
    from penstock.manifest.model import SparkSpec
    from penstock.runtime.spark.session import spark_session

    logs: Path = tmp_path_factory.mktemp("spark") / "logs"
    with spark_session(SparkSpec(master="local[2]"), logs, [*fetch(KAFKA), *fetch(POSTGRES)]) as session:
        yield session


_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
SMALL: Final[Mapping[str, Mapping[str, str]]] = {
    "spark": {**_INTERPRETED, "spark.sql.shuffle.partitions": "1"},
    "services": _INTERPRETED,
}
"""How queries over few rows are computed, by directory. To compile the code of a query takes longer than to interpret
it, and every partition of state takes its time. Modules that are about values, about what runs inside of generated code
or about partitions say `pytestmark = pytest.mark.as_deployed`."""


@pytest.fixture(autouse=True, scope="module")
def _small_queries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute the queries of a module in the way that is cheap for few rows. New sessions take it from the context."""
    tests = [item for item in request.session.items if item.path == request.path]
    wanted = SMALL.get(_directory(tests[0].location[0]))
    needs_spark = any("spark" in item.fixturenames for item in tests)
    if wanted is None or not needs_spark or request.node.get_closest_marker("as_deployed"):
        yield
        return
    spark: SparkSession = request.getfixturevalue("spark")
    before = _set_defaults(spark, wanted)
    yield
    _set_defaults(spark, before)


def _set_defaults(spark: "SparkSession", wanted: Mapping[str, str | None]) -> dict[str, str | None]:
    """Set what new sessions begin with, and return what it was."""
    conf = spark.sparkContext._jsc.sc().conf()
    before = {name: conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        if value is None:
            conf.remove(name)
        else:
            conf.set(name, value)
    return before


@pytest.fixture
def inside(spark: "SparkSession") -> "Inside":
    """The command `penstock`, in this process."""
    from tests.process.cli import Inside

    return Inside(spark)
