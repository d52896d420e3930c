"""Clients of a broker that accept any setting, with retries and one class of errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.clients.extras import require
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.retry import retry
from penstock.errors import ServiceError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

Client = TypeVar("Client")
RequestKey = TypeVar("RequestKey")
Response = TypeVar("Response")
SECONDS: Final = 10
"""The timeout of requests to a broker."""


class KafkaConversation:
    """Requests to one cluster. Every failure is a ServiceError that names the servers."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        self._connection_error: KafkaError | None = None
        self._poll_errors: Callable[[], object] = lambda: None
        require("confluent_kafka", extra="kafka")
        from confluent_kafka.admin import AdminClient

        self.admin = self.client(AdminClient, {})
        self._poll_errors = lambda: self.admin.poll(0)

    def client(self, kind: Callable[[dict[str, Any]], Client], own: Mapping[str, Any]) -> Client:
        """Create a client, without the settings that only the Java client knows."""
        from confluent_kafka import KafkaException

        settings = {
            **self.cluster.librdkafka_settings(),
            **own,
            "error_cb": self._record_error,
            "log_level": 0,
            "socket.connection.setup.timeout.ms": SECONDS * 1000,
        }
        while True:
            try:
                return kind(settings)
            except KafkaException as error:
                unknown = _unknown_setting(error, settings)
                if unknown is None:
                    raise self.service_error("cannot be asked", error) from error
                del settings[unknown]

    def _record_error(self, error: KafkaError) -> None:
        """Keep the reason why a connection fails: requests only report a timeout."""
        from confluent_kafka import KafkaError

        known = self._connection_error
        if known is None or known.code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
            self._connection_error = error

    def ask_with_retry(self, ask: Callable[[], Response], said: str) -> Response:
        """Repeat a request while its error may pass. A broker that refuses a request is not asked again."""
        from confluent_kafka import KafkaException

        def ask_once() -> Response:
            try:
                return ask()
            except KafkaException as error:
                raise self.service_error(said, error) from error

        return retry(ask_once, SECONDS)

    def result(self, future: Any, said: str) -> Any:
        from confluent_kafka import KafkaException

        try:
            return future.result()
        except KafkaException as error:
            raise self.service_error(said, error) from error

    def service_error(self, said: str, error: Exception) -> ServiceError:
        from confluent_kafka import KafkaError

        passing = (
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.LEADER_NOT_AVAILABLE,
        )
        reason = reason_of(error)
        if reason.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            self._poll_errors()
            reason = self._connection_error or reason
        text = f"Kafka at {self.cluster.servers} {said}: {reason.str()}"
        match reason.code():
            case KafkaError._AUTHENTICATION | KafkaError.SASL_AUTHENTICATION_FAILED:
                return ServiceError("kafka-refused", text, hint="see the user and the password of the cluster")
            case KafkaError._SSL:
                return ServiceError("kafka-refused", text, hint="see the certificates of the cluster")
            case (
                KafkaError.TOPIC_AUTHORIZATION_FAILED
                | KafkaError.CLUSTER_AUTHORIZATION_FAILED
                | KafkaError.GROUP_AUTHORIZATION_FAILED
            ):
                return ServiceError("kafka-refused", text, hint="the user has no right to do that")
            case KafkaError._TRANSPORT | KafkaError._TIMED_OUT | KafkaError._ALL_BROKERS_DOWN | KafkaError._RESOLVE:
                return ServiceError("unreachable", text, hint="check that the broker runs", retriable=True)
            case _:
                retriable = bool(reason.retriable()) or reason.code() in passing
                return ServiceError("kafka-failed", text, retriable=retriable)


def gather_results(answers: Mapping[RequestKey, Future[Response]]) -> dict[RequestKey, Response]:
    """Wait for the results of a request for several things."""
    return {asked: future.result() for asked, future in answers.items()}


def reason_of(error: Exception) -> KafkaError:
    reason: KafkaError = error.args[0]
    return reason


def _unknown_setting(error: Exception, settings: Mapping[str, Any]) -> str | None:
    """Return the setting that the client does not know."""
    from confluent_kafka import KafkaError

    reason = reason_of(error)
    if reason.code() != KafkaError._INVALID_ARG or "No such configuration property" not in reason.str():
        return None
    return next((name for name in settings if f'"{name}"' in reason.str()), None)
