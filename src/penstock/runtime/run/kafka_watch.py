"""Checks the brokers and topics of live queries at intervals.

Kafka's clients wait for a broker for minutes before they fail a batch, without a message. And Spark does not report all
changes of topics: one that was created again and refilled between two batches looks as if it had continued; a partition
that is added to a topic which is read in real-time mode may get no core, and is then never read; a schema may be
registered after records that need it.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.clients.kafka.admin import KafkaAdmin, TopicState
from penstock.errors import PenstockError, QueryFailed, ServiceError
from penstock.manifest.model import RealTime
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.steps import Plan
from penstock.plan.systems.realtime_cores import cores_of, missing_cores
from penstock.plan.systems.topics import Brokers
from penstock.runtime.checkpoint.topic_ids import noted_ids, recreated_topics, topics_of
from penstock.runtime.delivery.progress import ProgressBoard
from penstock.runtime.run.resources import Broker, RunResources

_PAUSE_SECS: Final = 5


@dataclass(frozen=True, slots=True)
class KafkaWatch:
    """Asks in threads of its own, as long as queries run."""

    plan: Plan
    resources: RunResources
    place: ProjectPlace
    board: ProgressBoard
    _found: dict[str, PenstockError] = field(default_factory=dict)
    _closing: threading.Event = field(default_factory=threading.Event)

    def begin(self, *, with_topics: bool) -> None:
        for broker in self.resources.brokers(self.plan.queries):
            threading.Thread(target=self._watch_broker, args=(broker,), name="broker", daemon=True).start()
        if with_topics and self.resources.clusters.source is not None and any(map(topics_of, self.plan.queries)):
            threading.Thread(target=self._watch_topics, name="topics", daemon=True).start()

    def close(self) -> None:
        """Stop asking. The threads are not waited for, because a broker may be slow."""
        self._closing.set()

    def find_failure(self, query: str) -> PenstockError | None:
        """Return why a query must end, if a problem was found."""
        return self._found.get(query)

    def _watch_broker(self, broker: Broker) -> None:
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
                self.board.note_broker(broker.queries, since)

    def _watch_topics(self) -> None:
        while not self._closing.wait(_PAUSE_SECS):
            try:
                topics = self.resources.read_topics(name for query in self.plan.queries for name in topics_of(query))
                self._found.update((*self._recreated_topics(topics), *self._queries_without_cores(topics)))
                self.resources.ask_for_schemas()
            except (ServiceError, OSError):
                continue  # queries themselves notice an unreachable broker or registry

    def _recreated_topics(self, topics: Mapping[str, TopicState]) -> Iterator[tuple[str, PenstockError]]:
        ids = {name: state.id for name, state in topics.items() if state.id is not None}
        for query in self.plan.queries:
            checkpoint = self.place.checkpoint(query.name)
            if recreated_topics(noted_ids(checkpoint), ids) & topics_of(query):
                try:
                    self.resources.check_positions(query, checkpoint)
                except QueryFailed as failure:
                    yield query.name, failure

    def _queries_without_cores(self, topics: Mapping[str, TopicState]) -> Iterator[tuple[str, PenstockError]]:
        manifest, cores = self.plan.manifest, cores_of(self.plan.manifest.spark.master)
        if cores is None:
            return
        for missing in missing_cores(manifest, self.plan.queries, Brokers(topics), cores):
            for query in self.plan.queries:
                if isinstance(query.trigger, RealTime):
                    yield query.name, QueryFailed(missing.code, missing.message, hint=missing.hint)
