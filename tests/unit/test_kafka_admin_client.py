"""How long a broker is waited for, by a clock that only waiting moves."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.clients import retry
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.connection import KafkaCluster
from penstock.errors import ServiceError


def test_a_broker_that_never_answers_is_given_up_within_fifteen_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds

    def never(*, timeout: float) -> None:
        wait(timeout)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "nobody"))

    admin = KafkaAdmin(KafkaCluster("127.0.0.1:9"))
    monkeypatch.setattr(admin, "_client", SimpleNamespace(list_topics=never))
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: now, sleep=wait))
    with pytest.raises(ServiceError, match=r"Kafka at 127\.0\.0\.1:9 cannot list its topics") as failed:
        admin.topics()
    assert (failed.value.code, failed.value.retriable) == ("unreachable", True)
    assert 5 < now < 12, "it is patient, and leaves a command three seconds to start in"
