"""PostgreSQL behind certificates, in every mode that a client can ask for."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clients.postgres.server import PostgresServer
from penstock.dev import postgres as dev
from penstock.errors import ServiceError
from tests.services import postgres
from tests.services.postgres import Database


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with postgres.running(tmp_path_factory.mktemp("secured")) as database:
        ((data,),) = database.rows("SHOW data_directory")
        folder = Path(data)
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", str(folder / "server.key"), "-out", str(folder / "server.crt")]
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *files]
        subprocess.run(made, check=True, capture_output=True)
        for name in ("server.key", "server.crt"):
            os.chown(folder / name, folder.stat().st_uid, -1)
            (folder / name).chmod(0o600)
        database.rows("ALTER SYSTEM SET ssl = on")
        database.rows("SELECT pg_reload_conf()")
        ends = time.monotonic() + 120
        while database.rows("SHOW ssl") != [("on",)]:
            assert time.monotonic() < ends
            time.sleep(0.1)
        yield database


def authority(secured: Database) -> str:
    ((data,),) = secured.rows("SHOW data_directory")
    return str(Path(data) / "server.crt")


def is_encrypted(
    secured: Database, mode: str, *, ca: str | None = None, host: str = "127.0.0.1", user: str = dev.USER
) -> bool:
    server = PostgresServer(host, secured.port, user, dev.PASSWORD, dev.DATABASE, mode, ca)
    with server.connect() as db:
        found = db.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
    return found == (True,)


@pytest.mark.parametrize(
    ("mode", "encrypted"), [("disable", False), ("allow", False), ("prefer", True), ("require", True)]
)
def test_modes_that_trust_any_certificate(mode: str, encrypted: bool, secured: Database) -> None:
    assert is_encrypted(secured, mode) is encrypted


def test_a_server_that_wants_encryption_gets_it_unless_it_is_forbidden(secured: Database) -> None:
    hba = Path(authority(secured)).with_name("pg_hba.conf")
    hba.write_text(f"hostnossl all guarded all reject\n{hba.read_text()}")
    secured.rows(f"CREATE ROLE guarded LOGIN PASSWORD '{dev.PASSWORD}'")
    ((loaded,),) = secured.rows("SELECT pg_conf_load_time()")
    secured.rows("SELECT pg_reload_conf()")
    ends = time.monotonic() + 120
    while secured.rows("SELECT pg_conf_load_time()") == [(loaded,)]:
        assert time.monotonic() < ends
        time.sleep(0.1)
    assert is_encrypted(secured, "allow", user="guarded")
    with pytest.raises(ServiceError, match=r"pg_hba\.conf rejects") as caught:
        is_encrypted(secured, "disable", user="guarded")
    assert (caught.value.code, caught.value.retriable) == ("database-refused", False)


def test_modes_that_trust_one_certificate_only(secured: Database) -> None:
    ca = authority(secured)
    assert is_encrypted(secured, "verify-ca", ca=ca)
    assert is_encrypted(secured, "verify-full", ca=ca, host="localhost")


@pytest.mark.parametrize(("mode", "right_ca"), [("verify-ca", False), ("verify-full", True)])
def test_a_server_that_is_not_trusted_is_not_entered(
    mode: str, right_ca: bool, secured: Database, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    files = ["-keyout", str(tmp_path / "other.key"), "-out", str(other), "-subj", "/CN=other"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files]
    subprocess.run(made, check=True, capture_output=True)
    with pytest.raises(ServiceError) as caught:
        is_encrypted(secured, mode, ca=authority(secured) if right_ca else str(other))
    assert caught.value.code == "database-refused"
    assert not caught.value.retriable
