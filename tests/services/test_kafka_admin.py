"""Asking a real broker about topics, their settings and the positions of groups, by every way in."""

from pathlib import Path

import pytest

from penstock.clients.kafka.admin import KafkaAdmin, TopicState
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.kafka.record_reader import read_records
from penstock.errors import ServiceError
from tests.services.kafka import Broker, delete_all, new_topic, produce

WAYS = ("plain", "with_password", "with_scram", "with_longer_scram", "with_certificate", "with_both")


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in(broker: Broker, way: str) -> None:
    name = new_topic()
    KafkaAdmin(getattr(broker, way)).create(name, 1, 1, {})
    assert name in KafkaAdmin(broker.plain).topics()


def test_a_topic_is_made_grown_and_changed(broker: Broker) -> None:
    admin, name = KafkaAdmin(broker.plain), new_topic()
    admin.create(name, 2, 1, {"retention.ms": "3600000"})
    admin.create(name, 5, 1, {})
    assert admin.topics()[name] == TopicState(2, 1)
    admin.add_partitions(name, 3)
    admin.set_config(name, {"cleanup.policy": "compact"})
    assert admin.topics()[name].partitions == 3
    assert admin.chosen_config([name]) == {name: {"retention.ms": "3600000", "cleanup.policy": "compact"}}
    with pytest.raises(ServiceError, match="did not raise") as failed:
        admin.add_partitions(name, 1)
    assert failed.value.code == "kafka-failed"


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_topic_is_emptied_and_stays_what_it_is(broker: Broker, policy: str) -> None:
    admin, name = KafkaAdmin(broker.plain), new_topic()
    admin.create(name, 2, 1, {"cleanup.policy": policy})
    admin.empty(name)
    produce(broker.plain, name, *(("k", {"n": n}) for n in range(3)), partition=1)
    admin.empty(name)
    assert list(read_records(admin, [name])) == []
    assert admin.topics()[name] == TopicState(2, 1)
    assert admin.chosen_config([name]) == {name: {"cleanup.policy": policy}}
    produce(broker.plain, name, ("k", {"n": 4}), partition=1)
    assert [record.partition() for record in read_records(admin, [name])] == [1]


def test_positions_of_a_group(broker: Broker) -> None:
    admin, name = KafkaAdmin(broker.plain), new_topic()
    admin.create(name, 2, 1, {})
    assert admin.ends([name]) == {(name, 0): 0, (name, 1): 0}
    group = f"group of {name}"
    assert admin.committed_offsets(group, [name]) == {}
    admin.commit(group, {(name, 1): 7})
    assert admin.committed_offsets(group, [name]) == {(name, 1): 7}


def test_nobody_there(broker: Broker) -> None:
    with pytest.raises(ServiceError, match=r"Kafka at 127\.0\.0\.1:9 cannot list its topics") as failed:
        KafkaAdmin(KafkaCluster("127.0.0.1:9")).topics()
    assert failed.value.code == "unreachable"


def test_a_wrong_password(broker: Broker) -> None:
    stranger = KafkaCluster(broker.with_password.servers, username="ada", password="a guess")
    with pytest.raises(ServiceError, match="Authentication failed") as failed:
        KafkaAdmin(stranger).topics()
    assert failed.value.code == "kafka-refused"
    assert "a guess" not in str(failed.value)


def test_certificates_that_are_none(broker: Broker, tmp_path: Path) -> None:
    text = tmp_path / "ca.pem"
    for content, said in (
        (None, "cannot be read"),
        (b"\xff\x00", "is neither a certificate"),
        (b"hello", "is neither a certificate"),
    ):
        text.unlink(missing_ok=True)
        if content is not None:
            text.write_bytes(content)
        with pytest.raises(ServiceError, match=said) as failed:
            KafkaAdmin(KafkaCluster(broker.with_certificate.servers, ca=str(text)))
        assert failed.value.code == "certificate-unreadable"


def test_a_setting_that_only_java_knows_does_no_harm(broker: Broker) -> None:
    cluster = KafkaCluster(broker.plain.servers, config={"metadata.max.age.ms": "1000", "receive.buffer.bytes": "1000"})
    assert KafkaAdmin(cluster).topics() is not None


def test_records_come_topic_by_topic_in_their_order(broker: Broker) -> None:
    admin, names = KafkaAdmin(broker.plain), sorted((new_topic(), new_topic()))
    for name in names:
        admin.create(name, 2, 1, {})
        for number in (1, 0, 1):
            produce(broker.plain, name, b"1", b"2", partition=number)
    delete_all(broker.plain, names[0])
    produce(broker.plain, names[0], b"3", partition=1)
    found = [(m.topic(), m.partition(), m.offset()) for m in read_records(admin, [*reversed(names), "no such topic"])]
    assert found == [(names[0], 1, 4), *((names[1], 0, at) for at in range(2)), *((names[1], 1, at) for at in range(4))]
