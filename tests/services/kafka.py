"""A real broker for tests: the one of `penstock dev`, which also listens with passwords and with certificates."""

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.clients.kafka.cluster import KafkaCluster
from penstock.dev import kafka as dev_kafka
from penstock.dev import processes

_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Broker:
    """A broker by its three ways in: open, with a password, and with certificates."""

    home: Path
    plain: KafkaCluster
    with_password: KafkaCluster
    with_scram: KafkaCluster
    with_certificate: KafkaCluster


@contextmanager
def running(home: Path) -> Iterator[Broker]:
    """A broker that ends with the block."""
    plain, sasl, tls = (processes.free_port() for _ in range(3))
    certificates = _certificates(home / "certificates")
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl},SSL://127.0.0.1:{tls}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{_LOGIN}.plain.PlainLoginModule required user_ada="secret \\\\"of\\\\" ada";'
        ),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "ssl.client.auth": "required",
        "message.max.bytes": "20000000",
    }
    users = ["SCRAM-SHA-256=[name=ada,password=scrambled]"]
    try:
        dev_kafka.up(home, port=plain, settings=settings, users=users)
        files = {name: str(certificates / f"{name}.pem") for name in ("ca", "certificate", "key")}
        yield Broker(
            home,
            KafkaCluster(f"127.0.0.1:{plain}"),
            KafkaCluster(f"127.0.0.1:{sasl}", username="ada", password='secret "of" ada'),
            KafkaCluster(f"127.0.0.1:{sasl}", mechanism="SCRAM-SHA-256", username="ada", password="scrambled"),
            KafkaCluster(f"127.0.0.1:{tls}", **files),
        )
    finally:
        processes.stop(home)


def new_topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def _certificates(folder: Path) -> Path:
    """An authority of our own, a certificate for the broker and one for its clients."""
    folder.mkdir(parents=True)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tests"),
        *("-keyout", "ca.key", "-out", "ca.pem"),
    )
    for name in ("server", "client"):
        openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        )
        openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "2", "-copy_extensions", "copy", "-out", f"{name}.crt"),
        )
    (folder / "server.pem").write_text((folder / "server.key").read_text() + (folder / "server.crt").read_text())
    (folder / "client.crt").rename(folder / "certificate.pem")
    (folder / "client.key").rename(folder / "key.pem")
    return folder
