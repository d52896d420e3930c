"""Brokers that live queries read from or write to, asked now and then whether they answer.

Kafka's clients wait for a broker for minutes before they give up a batch, without a word.
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
    """Asks each broker from a thread of its own, for as long as queries run."""

    def __init__(self, queries: Collection[QuerySpec], outside: RunResources, board: ProgressBoard) -> None:
        self._queries = queries
        self._outside = outside
        self._board = board
        self._closing = threading.Event()

    def begin(self) -> None:
        for broker in self._outside.brokers(self._queries):
            threading.Thread(target=self._watch, args=(broker,), name="broker", daemon=True).start()

    def close(self) -> None:
        """Stop asking. A broker may be slow, so the thread is not waited for."""
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
