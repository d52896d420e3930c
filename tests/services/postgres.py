"""A real PostgreSQL for tests: the one of `penstock dev`."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.dev import postgres, processes


@dataclass(frozen=True)
class Database:
    """Where it answers, and what it answers."""

    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{postgres.DATABASE}"

    def rows(self, sql: str) -> list[tuple[str, ...]]:
        """The rows of a query, as texts."""
        command = [postgres._programs() / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", postgres.USER]
        environ = {**os.environ, "PGPASSWORD": postgres.PASSWORD}
        asked = [*command, "-d", postgres.DATABASE, "-AtX", "-F", "\t", "-c", sql]
        ended = subprocess.run(asked, env=environ, capture_output=True, text=True, check=True, timeout=60)
        return [tuple(line.split("\t")) for line in ended.stdout.splitlines()]

    def has(self, table: str) -> bool:
        return self.rows(f"SELECT to_regclass('{table}')") == [(table,)]


@contextmanager
def running(home: Path) -> Iterator[Database]:
    try:
        yield Database(int(postgres.up(home).about["port"]))
    finally:
        processes.stop(home)
