"""A real schema registry for tests: Apicurio, in memory, with the interface of Confluent's."""

import json
import shutil
import socket
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.clients.java import find_java

ARTIFACT = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"
RUNNER = "apicurio-registry-app-2.6.13.Final-runner.jar"
HOME = Path.home() / ".cache" / "penstock-tests" / "apicurio-2.6.13"
START_SECS = 60


def can_be_had() -> bool:
    return (HOME / RUNNER).is_file() or shutil.which("mvn") is not None


def install() -> Path:
    """The unpacked registry; fetched by Maven once a machine."""
    if not (HOME / RUNNER).is_file():
        target = HOME.with_name(f"{HOME.name}.new")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        get = ["mvn", "-q", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={target}"]
        subprocess.run(get, check=True, capture_output=True, cwd=target)
        (archive,) = target.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(target, filter="data")
        archive.unlink()
        shutil.rmtree(HOME, ignore_errors=True)
        target.rename(HOME)
    return HOME


@contextmanager
def running(logs: Path) -> Iterator[str]:
    """The address of a registry that ends with the block."""
    home = install()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    java = str(find_java().home / "bin" / "java")
    settings = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-Xmx256m"]
    with (logs / "registry.log").open("wb") as log:
        process = subprocess.Popen([java, *settings, "-jar", RUNNER], cwd=home, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        deadline = time.monotonic() + START_SECS
        while not _answers(address):
            assert process.poll() is None, (logs / "registry.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the registry did not start"
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def register(address: str, subject: str, schema: Any, kind: str = "AVRO") -> None:
    body = json.dumps({"schema": json.dumps(schema), "schemaType": kind}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/subjects/{subject}/versions", body, headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/subjects", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
