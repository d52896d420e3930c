from collections.abc import Iterator

import pytest

from tests.services import kafka


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    with kafka.running(tmp_path_factory.mktemp("kafka")) as found:
        yield found
