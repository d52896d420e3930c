"""A real broker for tests: the one of `penstock dev`, which also listens with passwords and with certificates."""

import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.dev import kafka as dev_kafka
from penstock.dev import processes

_LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Broker:
    """A broker by its ways in: open, with a password, with certificates, and with a password behind a certificate."""

    home: Path
    plain: KafkaCluster
    with_password: KafkaCluster
    with_scram: KafkaCluster
    with_longer_scram: KafkaCluster
    with_certificate: KafkaCluster
    with_both: KafkaCluster


def start(home: Path) -> tuple[Path, dict[str, int]]:
    """Start a broker with all of its ways in; where its data is, and its ports."""
    ports = {name: processes.free_port() for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")}
    certificates = _certificates(home / "certificates")
    users_of_plain = f'{_LOGIN}.plain.PlainLoginModule required user_ada="secret \\\\"of\\\\" ada";'
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": users_of_plain,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": users_of_plain,
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
        "ssl.client.auth": "required",
        "message.max.bytes": "20000000",
    }
    users = ["SCRAM-SHA-256=[name=ada,password=scrambled]", "SCRAM-SHA-512=[name=bob,password=more scrambled]"]
    dev_kafka.up(home, port=ports["PLAINTEXT"], settings=settings, users=users)
    return home, ports


def broker_of(home: Path, ports: Mapping[str, int]) -> Broker:
    """The broker that was started there."""
    files = {name: str(home / "certificates" / f"{name}.pem") for name in ("ca", "certificate", "key")}
    plain, sasl, tls, both = (f"127.0.0.1:{ports[name]}" for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"))
    return Broker(
        home,
        KafkaCluster(plain),
        KafkaCluster(sasl, username="ada", password='secret "of" ada'),
        KafkaCluster(sasl, mechanism="SCRAM-SHA-256", username="ada", password="scrambled"),
        KafkaCluster(sasl, mechanism="SCRAM-SHA-512", username="bob", password="more scrambled"),
        KafkaCluster(tls, **files),
        KafkaCluster(both, username="ada", password='secret "of" ada', ca=files["ca"]),
    )


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


@dataclass(frozen=True)
class Record:
    """A record of a topic, as a consumer sees it."""

    key: str | None
    value: bytes | None
    headers: dict[str, str]
    partition: int
    offset: int


def produce(cluster: KafkaCluster, topic: str, *records: Any, partition: int = -1, **settings: Any) -> None:
    """Send records: values, or pairs of a key and a value, or of a key, a value and headers. Mappings become JSON."""
    producer = Producer({**cluster.librdkafka_settings(), "message.max.bytes": 20_000_000, **settings})
    for record in records:
        key, value, headers = (*record, None)[:3] if isinstance(record, tuple) else (None, record, None)
        data = json.dumps(value, default=str).encode() if isinstance(value, Mapping) else value
        producer.produce(topic, data, key, partition, headers=headers)
    assert producer.flush(120) == 0


def consume(cluster: KafkaCluster, topic: str) -> list[Record]:
    """Everything that a topic holds now, partition by partition."""
    consumer = Consumer(
        {
            **cluster.librdkafka_settings(),
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: list[Record] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(120)
            assert message is not None, "nothing came"
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
                continue
            key, headers = (
                message.key(),
                {name: text.decode(errors="replace") for name, text in message.headers() or []},
            )
            place = (message.partition(), message.offset())
            found.append(
                Record(None if key is None else key.decode(errors="replace"), message.value(), headers, *place)
            )
        return sorted(found, key=lambda record: (record.partition, record.offset))
    finally:
        consumer.close()


def delete_all(cluster: KafkaCluster, topic: str) -> None:
    """Take away every record of a topic, as a broker does when they are old."""
    ends = KafkaAdmin(cluster).ends([topic])
    client = AdminClient(cluster.librdkafka_settings())
    for deleted in client.delete_records([TopicPartition(*place, at) for place, at in ends.items()]).values():
        deleted.result(30)


def rows_of(records: list[Record]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.value is not None]


CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""How records can be packed, in the order in which Kafka numbers it."""


def codecs_of(broker: Broker, topic: str) -> set[str]:
    """How the records of a topic with one partition are packed: the lowest bits of their batches' attributes say so."""
    return {CODECS[batch[22] & 7] for batch in _batches(broker, topic)}


def producers_of(broker: Broker, topic: str) -> set[int]:
    """The numbers of the producers of a topic with one partition. One that may write records twice has -1."""
    return {int.from_bytes(batch[43:51], "big", signed=True) for batch in _batches(broker, topic)}


def _batches(broker: Broker, topic: str) -> Iterator[bytes]:
    """The batches of records of a topic with one partition, as the broker keeps them."""
    (segment,) = (broker.home / "data" / f"{topic}-0").glob("*.log")
    data, at = segment.read_bytes(), 0
    while at + 61 <= len(data) and (length := int.from_bytes(data[at + 8 : at + 12], "big")):
        yield data[at : at + 12 + length]
        at += 12 + length
