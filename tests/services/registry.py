"""A real schema registry for tests: the one of `penstock dev`."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.dev import processes
from penstock.dev import registry as dev_registry


@contextmanager
def running(home: Path) -> Iterator[str]:
    """The address of a registry that ends with the block."""
    try:
        yield str(dev_registry.up(home).about["url"])
    finally:
        processes.stop(home)


def register(address: str, subject: str, schema: Any, kind: str = "AVRO") -> None:
    body = json.dumps({"schema": json.dumps(schema), "schemaType": kind}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/subjects/{subject}/versions", body, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200
