"""Checks the topics of live queries at intervals, because Spark does not report all changes of them.

A topic that was created again and refilled between two batches looks as if it had continued. A partition that is added
to a topic which is read in real-time mode may get no core, and is then never read. A schema may be registered after
records that need it.
"""

import threading
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.clients.kafka.admin import TopicState
from penstock.errors import PenstockError, QueryFailed, ServiceError
from penstock.manifest.model import RealTime
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.steps import Plan
from penstock.plan.systems.brokers import Brokers
from penstock.plan.systems.realtime_cores import cores_of, missing_cores
from penstock.runtime.checkpoint.topic_ids import noted_ids, recreated_topics, topics_of
from penstock.runtime.run.resources import RunResources

_PAUSE_SECS: Final = 5


class TopicWatch:
    """Asks the broker in a thread of its own, as long as queries run."""

    def __init__(self, plan: Plan, outside: RunResources, place: ProjectPlace) -> None:
        self._plan = plan
        self._outside = outside
        self._place = place
        self._found: dict[str, PenstockError] = {}
        self._closing = threading.Event()

    def begin(self) -> None:
        if self._outside.reads_kafka and any(map(topics_of, self._plan.queries)):
            threading.Thread(target=self._work, name="topics", daemon=True).start()

    def close(self) -> None:
        """Stop asking. The thread is not waited for, because a broker may be slow."""
        self._closing.set()

    def find_failure(self, query: str) -> PenstockError | None:
        """Return why a query must end, if a problem was found."""
        return self._found.get(query)

    def _work(self) -> None:
        while not self._closing.wait(_PAUSE_SECS):
            try:
                topics = self._outside.read_topics(name for query in self._plan.queries for name in topics_of(query))
                self._found.update(
                    {**dict(self._recreated_topics(topics)), **dict(self._queries_without_cores(topics))}
                )
                self._outside.ask_for_schemas()
            except (ServiceError, OSError):
                continue  # queries themselves notice an unreachable broker or registry

    def _recreated_topics(self, topics: Mapping[str, TopicState]) -> Iterator[tuple[str, PenstockError]]:
        ids = {name: state.id for name, state in topics.items() if state.id is not None}
        for query in self._plan.queries:
            checkpoint = self._place.checkpoint(query.name)
            if recreated_topics(noted_ids(checkpoint), ids) & topics_of(query):
                try:
                    self._outside.check_positions(query, checkpoint)
                except QueryFailed as failure:
                    yield query.name, failure

    def _queries_without_cores(self, topics: Mapping[str, TopicState]) -> Iterator[tuple[str, PenstockError]]:
        manifest, cores = self._plan.manifest, cores_of(self._plan.manifest.spark.master)
        if cores is None:
            return
        for missing in missing_cores(manifest, self._plan.queries, Brokers(topics), cores):
            for query in self._plan.queries:
                if isinstance(query.trigger, RealTime):
                    yield query.name, QueryFailed(missing.code, missing.message, hint=missing.hint)
