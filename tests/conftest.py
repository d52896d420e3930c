"""What all tests share: one Spark session per worker, services that all workers use, and the order of the tests."""

import fcntl
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """The files in these directories of `tests`, in the order of the directories."""
    return sorted(
        (file for file in files if Path(file).parts[1] in names), key=lambda file: names.index(Path(file).parts[1])
    )


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


@pytest.fixture
def inside(spark: "SparkSession") -> "Inside":
    """The command `penstock`, in this process."""
    from tests.process.cli import Inside

    return Inside(spark)
