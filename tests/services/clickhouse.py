"""ClickHouse's real engine for tests, as `penstock dev` runs it, and its own client to look into it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clickhouse_connect import get_client

from penstock.dev import clickhouse as dev_clickhouse
from penstock.dev import processes


def start(home: Path) -> str:
    """Start an engine; its address."""
    return str(dev_clickhouse.up(home).about["url"])


@contextmanager
def running(home: Path) -> Iterator[str]:
    """The address of an engine that ends with the block."""
    try:
        yield start(home)
    finally:
        processes.stop(home)


def client(url: str, **settings: Any) -> Any:
    address = urlsplit(url)
    return get_client(host=address.hostname, port=address.port, **settings)
