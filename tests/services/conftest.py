"""Real services, started once for all tests of a worker, and stopped at the end. Names in them are unique per test."""

from collections.abc import Iterator

import pytest

from penstock.dev import kafka as dev_kafka
from penstock.dev import processes


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker."""
    home = tmp_path_factory.mktemp("services") / "kafka"
    running = dev_kafka.up(home)
    yield str(running.about["bootstrap_servers"])
    processes.stop(home)
