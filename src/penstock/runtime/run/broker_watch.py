"""Checks at intervals whether the brokers of live queries answer.

Kafka's clients wait for a broker for minutes before they fail a batch, without a message.
"""

import threading
import time
from collections.abc import Collection
from typing import Final

from penstock.clients.kafka.admin import KafkaAdmin
from penstock.errors import ServiceError
from penstock.manifest.model import QuerySpec
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.run.resources import Broker, RunResources

_PAUSE_SECS: Final = 5


class BrokerWatch:
    """Asks each broker in a thread of its own, as long as queries run."""

    def __init__(self, queries: Collection[QuerySpec], outside: RunResources, board: ProgressBoard) -> None:
        self._queries = queries
        self._outside = outside
        self._board = board
        self._closing = threading.Event()

    def begin(self) -> None:
        for broker in self._outside.brokers(self._queries):
            threading.Thread(target=self._watch, args=(broker,), name="broker", daemon=True).start()

    def close(self) -> None:
        """Stop asking. The thread is not waited for, because a broker may be slow."""
        self._closing.set()

    def _watch(self, broker: Broker) -> None:
        since: float | None = None
        admin: KafkaAdmin | None = None
        while not self._closing.wait(_PAUSE_SECS):
            asked_at = time.time()
            try:
                admin = admin or KafkaAdmin(broker.kafka)
                admin.describe_topics(broker.topics)
                since = None
            except (ServiceError, OSError):
                since = since or asked_at
            if not self._closing.is_set():
                self._board.note_broker(broker.queries, since)
