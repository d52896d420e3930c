"""What hashes in Redis hold after inserts, updates and deletes, and what a user sees of a server that refuses."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.sql import SparkSession

from penstock.connectors.redis.sink import RedisSink
from penstock.errors import QueryFailed, ServiceError
from penstock.testing.contract import FIRST
from tests.contract.services import Mortal
from tests.contract.subjects import MortalRedis
from tests.spark.running import Running


@pytest.fixture
def server(service: Callable[[type[Mortal]], Any]) -> Iterator[redis.Redis]:
    with redis.Redis(port=service(MortalRedis).port, decode_responses=True) as client:
        client.flushdb()
        yield client


def sink(server: redis.Redis, **settings: Any) -> RedisSink:
    port = server.get_connection_kwargs()["port"]
    said = {"from": "rows", "url": f"redis://127.0.0.1:{port}", "key_prefix": "o", "primary_key": "id", **settings}
    return RedisSink.model_validate(said)


def hashes(server: redis.Redis) -> dict[str, Any]:
    return {key: server.hgetall(key) for key in server.scan_iter("o:*")}


CHANGES = "id BIGINT, name STRING, paid DECIMAL(20,2), _gs_op STRING"


def test_rows_set_fields_nulls_remove_them_and_deletes_remove_hashes(server: redis.Redis, spark: SparkSession) -> None:
    first = spark.createDataFrame([(1, "a", None, "i"), (2, "b\0", None, "i"), (3, "c", None, "i")], CHANGES)
    assert sink(server, ttl_secs=100).write(first, FIRST).rows == 3
    server.hset("o:1", "theirs", "x")
    second = spark.createDataFrame([(1, None, None, "u"), (2, None, None, "d"), (3, "c", None, "u")], CHANGES)
    sink(server).write(second.selectExpr("*", "CAST(7 AS DECIMAL(20,2)) AS sum"), replace(FIRST, batch_id=1))
    assert hashes(server) == {
        "o:1": {"id": "1", "sum": "7.00", "theirs": "x"},
        "o:3": {"id": "3", "name": "c", "sum": "7.00"},
    }
    assert 0 < int(server.ttl("o:3")) <= 100
    sink(server).empty()
    assert hashes(server) == {}


def test_parts_of_a_key_cannot_be_mistaken_for_each_other(server: redis.Redis, spark: SparkSession) -> None:
    rows = spark.createDataFrame([("a:b", "c"), ("a", "b:c"), ("a\\", "c")], "x STRING, y STRING")
    sink(server, primary_key="x,y").write(rows, FIRST)
    assert set(hashes(server)) == {"o:a\\:b:c", "o:a:b\\:c", "o:a\\\\:c"}


def test_rows_that_redis_refuses_are_kept_and_the_others_written(server: redis.Redis, spark: SparkSession) -> None:
    server.set("o:2", "no hash")
    schema = "id INT, name STRING, n INT, _gs_op STRING"
    rows = spark.createDataFrame([(1, "a", 1, "i"), (2, "b", None, "i"), (None, "c", 3, "i")], schema)
    kept: dict[str, str] = {}
    done = sink(server).write(
        rows, FIRST, lambda dead_letters: kept.update({r.value: r.message for r in dead_letters.collect()})
    )
    assert (done.rows, done.refused, server.get("o:2")) == (1, 2, "no hash")
    assert kept['{"id":null,"name":"c","n":3,"_gs_op":"i"}'] == "a column of its key is null"
    assert "WRONGTYPE" in kept['{"id":2,"name":"b","n":null,"_gs_op":"i"}']
    with pytest.raises(QueryFailed) as refused:
        sink(server).write(rows, replace(FIRST, batch_id=1))
    assert refused.value.code == "rows-refused"


def test_servers_that_do_not_let_us_in_are_told_from_those_that_are_gone(server: redis.Redis) -> None:
    with pytest.raises(ServiceError) as wrong:
        sink(server, password="hunter22", user="nobody").check()
    assert (wrong.value.code, wrong.value.retriable) == ("database-refused", False)
    assert "hunter22" not in f"{wrong.value}{sink(server, password='hunter22')!r}"
    with pytest.raises(ServiceError) as gone:
        sink(server, url="redis://127.0.0.1:1").check()
    assert (gone.value.code, gone.value.retriable) == ("unreachable", True)
    with pytest.raises(ServiceError) as without_tls:
        sink(server, url=sink(server).url.replace("redis", "rediss")).check()
    assert "hunter" not in without_tls.value.message


def test_a_server_without_memory_or_that_is_a_replica_may_recover(server: redis.Redis, spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1,)], "id INT")
    try:
        server.config_set("maxmemory", "1")
        with pytest.raises(ServiceError, match="maxmemory") as full:
            sink(server).write(rows, FIRST)
    finally:
        server.config_set("maxmemory", "0")
    try:
        server.replicaof("127.0.0.1", "1")
        with pytest.raises(ServiceError) as replica:
            sink(server).write(rows, FIRST)
    finally:
        server.replicaof("NO", "ONE")
    assert [error.value.retriable for error in (full, replica)] == [True, True]
    assert "o:1" not in f"{full.value}{replica.value}", "values of rows are in no message"


def test_a_pipeline_leaves_the_last_row_of_each_key(server: redis.Redis, tmp_path: Path, spark: SparkSession) -> None:
    running = Running(tmp_path, spark, "pipeline.yml")
    running.write(
        {
            "pipeline.yml": "sources:\n  rows: {type: file, path: in, format: json, mode: {type: bounded}}\n"
            f"sinks:\n  hashes: {{type: redis, from: rows, url: '{sink(server).url}', key_prefix: o, "
            "primary_key: id}\n",
            "in/1.json": '{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n{"id": 1, "name": "c"}\n',
        }
    )
    running.run()
    assert hashes(server) == {"o:1": {"id": "1", "name": "c"}, "o:2": {"id": "2", "name": "b"}}
