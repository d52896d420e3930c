"""Kafka as a single process: broker and controller, with topics on the local disk."""

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from penstock.clients.jvm.java import find_java
from penstock.clients.jvm.maven import Package, fetch
from penstock.dev.processes import RunningService, answers, free_port, own_port, run_to_end, start

VERSION: Final = "4.3.1"
PACKAGES: Final = (
    Package("org.apache.kafka", "kafka_2.13", VERSION),
    Package("org.apache.kafka", "kafka-tools", VERSION),
    Package("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)
AUTO_CREATE: Final[Mapping[str, str]] = MappingProxyType({"auto.create.topics.enable": "true"})
"""Settings of a broker that creates a topic on the first write to it."""
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOGGING: Final = """
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = WARN
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = out
"""


def java_command(home: Path, packages: Sequence[Package]) -> list[str | Path]:
    """Return a command that runs a class of these packages, and configure its log."""
    logging = home / "log4j2.properties"
    logging.write_text(LOGGING, encoding="utf-8")
    java = find_java().home / "bin" / "java"
    return [java, "-Xmx512m", f"-Dlog4j2.configurationFile={logging}", "-cp", ":".join(map(str, fetch(packages)))]


def up(
    home: Path,
    *,
    port: int | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
    users: Sequence[str] = (),
) -> RunningService:
    """Start a broker whose data is below `home`; data of an earlier broker there is reused.

    `settings` override ours. `users` are created with a new broker, in the syntax of Kafka's own tools.
    """
    port, controller = own_port(home, port), free_port()
    properties = home / "server.properties"
    properties.write_text(_properties(home, port, controller, settings), encoding="utf-8")
    java = java_command(home, PACKAGES)
    if not (home / "data" / "meta.properties").is_file():
        _format(java, properties, users)
    about = {"bootstrap_servers": f"127.0.0.1:{port}"}
    return start("Kafka", home, [*java, "kafka.Kafka", properties], about, lambda: answers(port))


def _format(java: list[str | Path], properties: Path, users: Sequence[str]) -> None:
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", properties]
    command += [part for user in users for part in ("--add-scram", user)]
    run_to_end("Kafka cannot create its data directory", command)


def _properties(home: Path, port: int, controller: int, settings: Mapping[str, str]) -> str:
    own = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(["CONTROLLER:PLAINTEXT", *(f"{p}:{p}" for p in _PROTOCOLS)]),
        "log.dirs": str(home / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "log.segment.delete.delay.ms": "1000",
    }
    own |= settings
    own["advertised.listeners"] = own["listeners"]
    own["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
    return "".join(f"{key}={value}\n" for key, value in own.items())
