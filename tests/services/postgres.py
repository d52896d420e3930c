"""A real PostgreSQL for tests: the one of `penstock dev`."""

import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

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


@dataclass(frozen=True)
class Shop:
    """A database of its own, whose table `orders` is followed."""

    db: psycopg.Connection[Any]
    name: str
    port: int

    @property
    def login(self) -> dict[str, Any]:
        entry = {"host": "127.0.0.1", "port": self.port, "user": postgres.USER, "password": postgres.PASSWORD}
        return {**entry, "database": self.name, "sslmode": "disable"}

    @property
    def address(self) -> str:
        return _address(self.port, self.name)

    def do(self, *statements: str) -> None:
        for statement in statements:
            self.db.execute(statement.encode())

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.db.execute(sql.encode()).fetchall()

    def source(self, **settings: Any) -> dict[str, Any]:
        return {"type": "postgres_cdc", "table": "orders", **self.login, **settings}


@contextmanager
def shop_of(database: Database) -> Iterator[Shop]:
    """A new database on a server. Slots that are left there are dropped: each of them keeps the log of the server."""
    name = f"shop_{uuid.uuid4().hex[:12]}"
    with _entered(database.port, postgres.DATABASE) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    with _entered(database.port, name) as db:
        yield Shop(db, name, database.port)
        db.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE database = current_database() AND NOT active"
        )


def _entered(port: int, name: str) -> psycopg.Connection[Any]:
    """A server takes connections a moment before it lets anybody in."""
    for _ in range(100):
        with suppress(psycopg.OperationalError):
            return psycopg.connect(_address(port, name), autocommit=True)
        time.sleep(0.1)
    return psycopg.connect(_address(port, name), autocommit=True)


def _address(port: int, name: str) -> str:
    return f"host=127.0.0.1 port={port} user={postgres.USER} password={postgres.PASSWORD} dbname={name}"


def start(home: Path) -> Database:
    """Start a server, and wait until it lets clients in."""
    port = int(postgres.up(home).about["port"])
    _entered(port, postgres.DATABASE).close()
    return Database(port)


@contextmanager
def running(home: Path) -> Iterator[Database]:
    """A server that ends with the block."""
    try:
        yield start(home)
    finally:
        processes.stop(home)
