"""`penstock dev`: services that start, are found again, and end."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
import pyarrow as pa
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.dev import clickhouse as dev_clickhouse
from penstock.dev import postgres as dev_postgres
from penstock.dev import processes
from penstock.errors import ServiceError
from tests.services import clickhouse
from tests.services.kafka import produce


def dev(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from penstock.cli.main import main; main()", "dev", *arguments]
    return subprocess.run([*command, "-p", str(folder)], capture_output=True, text=True, timeout=600, check=False)


def told(folder: Path, *arguments: str) -> Any:
    ended = dev(folder, *arguments, "--format", "json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_kafka_is_found_again_and_keeps_its_topics(tmp_path: Path) -> None:
    try:
        first = told(tmp_path, "up", "kafka")
        assert told(tmp_path, "status") == first
        assert told(tmp_path, "up", "kafka") == first
        lines = dev(tmp_path, "env").stdout.splitlines()
        servers = first["kafka"]["bootstrap_servers"]
        assert f"export KAFKA_BOOTSTRAP_SERVERS={servers}" in lines
        assert f"export PENSTOCK__KAFKA_SOURCE__BROKERS={servers}" in lines
        cluster = KafkaCluster(servers)
        produce(cluster, "nobody.made.it", {"id": 1})
        assert told(tmp_path, "down") == {"stopped": ["kafka"]}
        assert told(tmp_path, "status") == {}
        assert told(tmp_path, "up", "kafka") == first
        assert "nobody.made.it" in KafkaAdmin(cluster).topics()
    finally:
        dev(tmp_path, "down")


def test_what_is_running_is_told_as_one_document(tmp_path: Path) -> None:
    try:
        about = told(tmp_path, "up", "registry", "connect")
        assert {name: set(values) for name, values in about.items()} == {
            "kafka": {"bootstrap_servers"},
            "registry": {"url"},
            "connect": {"url"},
        }
        for url, path in ((about["registry"]["url"], "/subjects"), (about["connect"]["url"], "/connectors")):
            with urllib.request.urlopen(url + path, timeout=30) as answer:
                assert json.load(answer) == []
        assert about["kafka"]["bootstrap_servers"].startswith("127.0.0.1:")
    finally:
        dev(tmp_path, "down")


def test_postgres_runs_in_a_directory_that_only_its_owner_may_enter(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    try:
        about = told(closed, "up", "postgres")["postgres"]
        assert set(about) == {"host", "port", "user", "password", "database"}
        assert processes.answers(about["port"])
    finally:
        dev(closed, "down")


@pytest.mark.skipif(os.geteuid() != 0, reason="others run it as themselves")
def test_programs_in_a_directory_that_only_root_may_enter_are_copied(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    programs = tmp_path / "closed" / "bin"
    programs.mkdir(parents=True, mode=0o700)
    (programs / "postgres").write_text("#!/bin/sh\ncat $(dirname $0)/../share/version\n")
    (programs / "postgres").chmod(0o700)
    with pytest.raises(ServiceError, match="the user `nobody` cannot run") as failed:
        dev_postgres.runnable_by(nobody, programs)
    assert failed.value.code == "dev-not-started"
    (tmp_path / "closed" / "share").mkdir()
    (tmp_path / "closed" / "share" / "version").write_text("15")
    copy = dev_postgres.runnable_by(nobody, programs)
    try:
        told = subprocess.run([copy / "postgres"], capture_output=True, text=True, user=nobody, cwd="/", check=True)
        assert told.stdout == "15"
        assert dev_postgres.runnable_by(nobody, programs) == copy
    finally:
        shutil.rmtree(copy.parent)


def test_postgres_ends_in_order_while_somebody_is_connected(tmp_path: Path) -> None:
    try:
        about = told(tmp_path, "up", "postgres")["postgres"]
        login = {"host": about["host"], "port": about["port"], "user": about["user"], "password": about["password"]}
        with psycopg.connect(**login, dbname=about["database"]):
            assert told(tmp_path, "down") == {"stopped": ["postgres"]}
        (log,) = tmp_path.rglob("log.txt")
        assert "database system is shut down" in log.read_text(encoding="utf-8")
    finally:
        dev(tmp_path, "down")


def test_postgres_is_up_when_it_lets_people_in(tmp_path: Path) -> None:
    """After a crash it has to put its data in order first, and turns everybody away meanwhile."""
    login = {"host": "127.0.0.1", "user": dev_postgres.USER, "password": dev_postgres.PASSWORD}
    try:
        for _ in range(3):
            running = dev_postgres.up(tmp_path)
            with psycopg.connect(**login, port=running.about["port"], dbname=dev_postgres.DATABASE) as db:
                db.execute("DROP TABLE IF EXISTS numbers")
                db.execute("CREATE TABLE numbers AS SELECT generate_series(1, 200000) AS n")
            os.kill(running.pid, signal.SIGQUIT)
            processes.stop(tmp_path)
    finally:
        processes.stop(tmp_path)


def test_a_service_that_is_none(tmp_path: Path) -> None:
    ended = dev(tmp_path, "up", "kafkaa")
    assert ended.returncode == 4
    assert "dev-unknown" in ended.stderr
    assert "did you mean `kafka`?" in ended.stderr


def test_a_process_that_ends_at_once_says_why(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such luck')"]
    with pytest.raises(ServiceError, match="it ended with 1; no such luck") as failed:
        processes.start("it", tmp_path, command, {}, lambda: False)
    assert failed.value.code == "dev-not-started"
    assert processes.find(tmp_path) is None


def test_another_process_with_the_number_of_a_service_is_left_alone(tmp_path: Path) -> None:
    note = {"pid": os.getpid(), "born": "1", "about": {}}
    (tmp_path / processes.NOTE).write_text(json.dumps(note))
    assert processes.find(tmp_path) is None
    assert processes.stop(tmp_path) is False


def test_clickhouse_serves_its_own_client_and_keeps_its_tables(tmp_path: Path) -> None:
    try:
        client = clickhouse.client(told(tmp_path, "up", "clickhouse")["clickhouse"]["url"])
        client.command("CREATE TABLE t (id Int64, name Nullable(String)) ENGINE = MergeTree ORDER BY id")
        client.insert("t", [[1, "ä\0"], [2, None]], column_names=["id", "name"])
        client.insert_arrow("t", pa.table({"id": [3], "name": ["c"]}))
        with pytest.raises(DatabaseError, match="Authentication failed"):
            clickhouse.client(told(tmp_path, "status")["clickhouse"]["url"], username="ada")
        told(tmp_path, "down")
        again = clickhouse.client(told(tmp_path, "up", "clickhouse")["clickhouse"]["url"])
        found = again.query("SELECT id, name FROM t WHERE id < {n:Int64} ORDER BY id", parameters={"n": 4})
        assert found.result_rows == [(1, "ä\0"), (2, None), (3, "c")]
    finally:
        dev(tmp_path, "down")


@pytest.mark.parametrize(
    ("header", "sent"),
    [
        ("Content-Length: 100", b"1\n2\n"),
        ("Transfer-Encoding: chunked", b"64\r\n1\n2\n"),
        ("Transfer-Encoding: chunked", b"4"),
    ],
)
def test_clickhouse_takes_nothing_of_a_request_that_breaks_off(header: str, sent: bytes, tmp_path: Path) -> None:
    with clickhouse.running(tmp_path) as url:
        client = clickhouse.client(url)
        client.command("CREATE TABLE t (id UInt64) ENGINE = MergeTree ORDER BY id")
        address = urlsplit(url)
        with socket.create_connection((address.hostname or "", address.port or 0), 30) as torn:
            query = quote("INSERT INTO t FORMAT TSV")
            torn.sendall(f"POST /?query={query} HTTP/1.1\r\nHost: here\r\n{header}\r\n\r\n".encode() + sent)
            torn.shutdown(socket.SHUT_WR)
            assert torn.recv(1000) == b""
        assert client.query("SELECT count() FROM t").result_rows == [(0,)]


def test_without_its_engine_clickhouse_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.clients.extras.find_spec", lambda name: None)
    with pytest.raises(ServiceError) as failed:
        dev_clickhouse.up(tmp_path)
    assert (failed.value.code, failed.value.hint) == ("package-missing", 'pip install "penstock[dev-clickhouse]"')
