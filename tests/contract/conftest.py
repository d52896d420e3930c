from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.dev import processes
from tests.contract.services import Mortal


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[type[Mortal]], Any]]:
    """A service by its class, started when it is asked for the first time."""
    running: dict[type[Mortal], Mortal] = {}

    def find(kind: type[Mortal]) -> Mortal:
        if kind not in running:
            running[kind] = kind(tmp_path_factory.mktemp(kind.__name__))
        return running[kind]

    yield find
    for found in running.values():
        processes.stop(found.home)
