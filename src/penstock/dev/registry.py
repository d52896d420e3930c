"""A schema registry with Confluent's interface: Apicurio, in memory, as a single process."""

from pathlib import Path
from typing import Final

from penstock.clients.jvm.java import find_java
from penstock.clients.jvm.maven import Package, unpack_archive
from penstock.dev.processes import RunningService, own_port, responds, start

PACKAGE: Final = Package("io.apicurio", "apicurio-registry-app", "2.6.13.Final", "all", "tar.gz", alone=True)
_API: Final = "/apis/ccompat/v7"


def up(home: Path) -> RunningService:
    """Start a registry. Its content is lost when it ends."""
    port = own_port(home)
    (runner,) = unpack_archive(PACKAGE).glob("*-runner.jar")
    java: list[str | Path] = [find_java().home / "bin" / "java", "-Xmx256m"]
    command = [*java, "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}", "-jar", runner]
    url = f"http://127.0.0.1:{port}{_API}"
    return start("the schema registry", home, command, {"url": url}, lambda: responds(f"{url}/subjects"))
