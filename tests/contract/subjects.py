"""Every built-in sink, ready to be written to, and how to read back what it has written: from the system itself."""

import io
import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import redis
from pyspark.sql import SparkSession

from penstock.clients.clickhouse.client import ClickHouse
from penstock.clients.clickhouse.client import ClickHouseSinkServer as Target
from penstock.clients.clusters import Cluster
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.postgres.server import PostgresServer
from penstock.connectors.contract import Sink
from penstock.connectors.registry import find_sink
from penstock.dev import postgres as dev_postgres
from penstock.dev import processes
from penstock.testing import memory
from penstock.testing.contract import Service, SinkContract
from tests.contract.services import Mortal, MortalClickHouse, MortalEndpoint, MortalKafka, MortalPostgres
from tests.endpoint import endpoint
from tests.services import clickhouse, kafka

Row = dict[str, Any]


@dataclass(frozen=True)
class World:
    """Where sinks write in one test. Services are started when the first one asks for them."""

    folder: Path
    spark: SparkSession
    service: Callable[[type[Mortal]], Any]

    def contract(
        self,
        sink: Sink,
        rows: Callable[[], list[Row]],
        service: Service | None = None,
        ids: Callable[[], list[int]] | None = None,
    ) -> SinkContract:
        return SinkContract(sink, self.spark, ids or (lambda: [row["id"] for row in rows()]), rows, service)


def parsed(text: str) -> Row:
    """A row as JSON, with every digit that it has."""
    found: Row = json.loads(text, parse_float=Decimal)
    return found


def made(type_name: str, **settings: Any) -> Any:
    model = find_sink(type_name)
    assert model is not None
    return model.model_validate({"from": "rows", **settings})


# Without a service


@contextmanager
def blackhole(world: World) -> Iterator[SinkContract]:
    yield world.contract(made("blackhole"), list)


@contextmanager
def printed(world: World) -> Iterator[SinkContract]:
    out = io.StringIO()
    with redirect_stdout(out):
        yield world.contract(
            made("print"), lambda: [parsed(line.partition(" ")[2]) for line in out.getvalue().splitlines()]
        )


@contextmanager
def in_memory(world: World) -> Iterator[SinkContract]:
    def rows() -> list[Row]:
        return [{name: _aware(value) for name, value in row.items()} for row in memory.kept_rows("contract")]

    memory.forget()
    yield world.contract(made("memory"), rows)
    memory.forget()


def _aware(value: Any) -> Any:
    """Spark hands times to Python as those of the machine."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _lines(folder: Path) -> list[Row]:
    files = sorted(folder.glob("*-*/part-*.json"))
    return [parsed(line) for file in files for line in file.read_text("utf-8").split("\n") if line]


@contextmanager
def file(world: World) -> Iterator[SinkContract]:
    sink = made("file", path=world.folder, format="json")
    yield world.contract(sink, lambda: _lines(world.folder))


@contextmanager
def object_store(world: World) -> Iterator[SinkContract]:
    sink = made("s3-sink", path=world.folder.as_uri())
    yield world.contract(sink, lambda: _lines(world.folder))


@contextmanager
def topic(world: World) -> Iterator[SinkContract]:
    def rows() -> list[Row]:
        files = sorted(world.folder.rglob("part-*.parquet"))
        return [row for f in files if "_staging" not in f.parts for row in pq.read_table(f).to_pylist()]

    sink = made("topic", topic="rows", directory=world.folder)
    yield world.contract(sink, rows)


# PostgreSQL


@dataclass(frozen=True)
class Database:
    """A schema of its own, in the PostgreSQL of the contract."""

    service: MortalPostgres
    schema: str

    @property
    def server(self) -> PostgresServer:
        login = {"user": dev_postgres.USER, "password": dev_postgres.PASSWORD, "database": dev_postgres.DATABASE}
        return PostgresServer(port=self.service.port, patience_seconds=2, **login)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(**self.server.address, autocommit=True) as db:
            asked = db.execute(sql.encode())
            return asked.fetchall() if asked.description else []

    def rows(self, table: str) -> list[Row]:
        if self.ask(f"SELECT to_regclass('{self.schema}.{table}')") == [(None,)]:
            return []
        return [parsed(text) for (text,) in self.ask(f"SELECT to_json(t)::text FROM {self.schema}.{table} AS t")]


@contextmanager
def database(world: World) -> Iterator[Database]:
    found = Database(world.service(MortalPostgres), f"c{uuid.uuid4().hex[:8]}")
    yield found
    found.ask(f"DROP SCHEMA IF EXISTS {found.schema} CASCADE")


@contextmanager
def postgres(world: World, key: str = "id") -> Iterator[SinkContract]:
    with database(world) as db:
        sink = made("postgres", schema=db.schema, table="t", primary_key=key).with_server(db.server)
        yield world.contract(sink, lambda: db.rows("t"), db.service)


@contextmanager
def postgres_aggregate(world: World) -> Iterator[SinkContract]:
    """The ids, as often as they were counted; the values, as they have landed."""
    with database(world) as db:
        sink = made(
            "postgres_aggregate",
            schema=db.schema,
            landing_table="t",
            agg_table="sums",
            primary_key="id",
            group_by={"id": {}},
            aggregate={"n": {"fn": "count"}},
        ).with_server(db.server)
        yield world.contract(
            sink,
            lambda: db.rows("t"),
            db.service,
            lambda: [row["id"] for row in db.rows("sums") for _ in range(row["n"])],
        )


@contextmanager
def jdbc(world: World) -> Iterator[SinkContract]:
    with database(world) as db:
        login = {"connection.user": db.server.user, "connection.password": db.server.password}
        address = f"jdbc:postgresql://127.0.0.1:{db.service.port}/{db.server.database}?connectTimeout=2"
        more = {"insert.mode": "upsert", "pk.fields": "id", "auto.create": True, "table.name.format": f"{db.schema}.t"}
        sink = made("jdbc-sink", **{"connection.url": address}, **login, **more)
        yield world.contract(sink, lambda: db.rows("t"), db.service)


# ClickHouse


@contextmanager
def click_house(world: World) -> Iterator[SinkContract]:
    service: MortalClickHouse = world.service(MortalClickHouse)
    name = f"c_{uuid.uuid4().hex[:12]}"
    clickhouse.client(service.url).command(f"CREATE DATABASE {name}")
    server = ClickHouse(service.url, database=name, timeout_secs=3)

    def rows() -> list[Row]:
        client = clickhouse.client(service.url, database=name)
        columns = {row[0] for row in client.query("DESCRIBE TABLE t").result_rows} if _has_table(client) else set()
        if not columns:
            return []
        raw = "REPLACE (concat('\\\\x', hex(raw)) AS raw)" if "raw" in columns else ""
        return list(client.query(f"SELECT * {raw} FROM t").named_results())

    sink = made("clickhouse", table="t", primary_key="id").with_target(Target(server))
    yield world.contract(sink, rows, service)
    clickhouse.client(service.url).command(f"DROP DATABASE {name}")


def _has_table(client: Any) -> bool:
    return ("t",) in client.query("SHOW TABLES").result_rows


# Kafka and HTTP

IMPATIENT: Mapping[str, str] = {
    "max.block.ms": "10000",
    "delivery.timeout.ms": "10000",
    "request.timeout.ms": "5000",
    "linger.ms": "0",
}


@contextmanager
def kafka_topic(world: World) -> Iterator[SinkContract]:
    service: MortalKafka = world.service(MortalKafka)
    cluster = KafkaCluster(f"127.0.0.1:{service.port}")
    name = kafka.new_topic()
    KafkaAdmin(cluster).create(name, 2, 1, {})

    def rows() -> list[Row]:
        return [parsed(record.value.decode()) for record in kafka.consume(cluster, name) if record.value is not None]

    sink = made("kafka", topic=name, data_format="json", primary_key="id")
    yield world.contract(sink.with_cluster(Cluster(replace(cluster, config=IMPATIENT))), rows, service)


@contextmanager
def webhook(world: World) -> Iterator[SinkContract]:
    with endpoint() as server:
        sink = made("webhook", url=server.url, timeout="5s", retry_for="1s")
        rows = lambda: [row for request in list(server.taken) for row in parsed(request.body.decode())]  # noqa: E731
        yield world.contract(sink, rows, MortalEndpoint(server))


@contextmanager
def keyless_postgres(world: World) -> Iterator[SinkContract]:
    with postgres(world, key="") as found:
        yield found


class MortalRedis(Mortal):
    """A server that writes every change to its disk before it answers."""

    def up(self) -> None:
        keeping = ("--dir", self.home, "--appendonly", "yes", "--appendfsync", "always", "--save", "")
        command = ("redis-server", "--bind", "127.0.0.1", "--port", str(self.port), *keeping)
        processes.start("redis", self.home, command, {}, self._is_ready)

    def _is_ready(self) -> bool:
        with redis.Redis(port=self.port) as client, suppress(redis.ConnectionError):
            return bool(client.ping())
        return False


@contextmanager
def redis_hashes(world: World) -> Iterator[SinkContract]:
    service: MortalRedis = world.service(MortalRedis)
    prefix = f"c{uuid.uuid4().hex[:8]}"
    address = {"url": f"redis://127.0.0.1:{service.port}", "key_prefix": prefix, "timeout": "3s"}
    sink = made("redis", primary_key="id", **address)

    def rows() -> list[Row]:
        with redis.Redis(port=service.port, decode_responses=True) as client:
            found: list[Any] = [client.hgetall(key) for key in client.scan_iter(f"{prefix}:*")]
        return [{**row, "id": int(row["id"])} for row in found]

    yield world.contract(sink, rows, service)
    sink.empty()


SUBJECTS = {
    "blackhole": blackhole,
    "clickhouse": click_house,
    "file": file,
    "jdbc-sink": jdbc,
    "kafka": kafka_topic,
    "memory": in_memory,
    "postgres": postgres,
    "postgres without a key": keyless_postgres,
    "postgres_aggregate": postgres_aggregate,
    "print": printed,
    "redis": redis_hashes,
    "s3-sink": object_store,
    "topic": topic,
    "webhook": webhook,
}
"""By type; the same type may come in several ways, with a blank behind its name."""
