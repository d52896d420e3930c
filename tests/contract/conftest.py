from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.dev import processes
from tests.contract.services import Mortal, MortalClickHouse, MortalKafka, MortalPostgres

KINDS = {"postgres": MortalPostgres, "clickhouse": MortalClickHouse, "kafka": MortalKafka}


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    """A service by its name, started when it is asked for the first time."""
    running: dict[str, Mortal] = {}

    def find(name: str) -> Mortal:
        if name not in running:
            running[name] = KINDS[name](tmp_path_factory.mktemp(name))
        return running[name]

    yield find
    for found in running.values():
        processes.stop(found.home)
