"""A Kafka Connect worker with a sink connector for databases: Debezium's JDBC connector."""

from pathlib import Path
from typing import Final

from penstock.clients.jvm.maven import Package, unpack_archive
from penstock.dev.kafka import PACKAGES, VERSION, java_command
from penstock.dev.processes import RunningService, own_port, responds, start

RUNTIME: Final = (*PACKAGES, Package("org.apache.kafka", "connect-runtime", VERSION))
PLUGINS: Final = (Package("io.debezium", "debezium-connector-jdbc", "3.6.0.Final", "plugin", "tar.gz", alone=True),)


def up(home: Path, bootstrap_servers: str) -> RunningService:
    """Start a worker that uses a running Kafka. Connectors and their offsets are stored in topics there."""
    port = own_port(home)
    properties = home / "connect.properties"
    properties.write_text(_properties(bootstrap_servers, port), encoding="utf-8")
    command = [*java_command(home, RUNTIME), "org.apache.kafka.connect.cli.ConnectDistributed", properties]
    url = f"http://127.0.0.1:{port}"
    return start("Kafka Connect", home, command, {"url": url}, lambda: responds(f"{url}/connectors"))


def _properties(bootstrap_servers: str, port: int) -> str:
    own = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "penstock-dev",
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "plugin.path": ",".join(str(unpack_archive(plugin)) for plugin in PLUGINS),
        "plugin.discovery": "hybrid_warn",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        **{f"{kind}.storage.topic": f"_connect-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "offset.storage.partitions": "2",
        "status.storage.partitions": "1",
        "offset.flush.interval.ms": "1000",
    }
    return "".join(f"{key}={value}\n" for key, value in own.items())
