"""The directories of a project's state: everything below `.penstock`, next to its documents."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from penstock.clients.files.batch_directory import NOTE
from penstock.clients.files.path_names import short_directory_name
from penstock.connectors.topic_fields import TOPICS

HOME: Final = ".penstock"
_ANOTHER: Final = "@another"
BatchLog: TypeAlias = Literal["offsets", "commits"]


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """`name` distinguishes a project from a pipeline of the same name: `project.shop`, `pipeline.shop`. `application`
    distinguishes deployments of one pipeline. `environment` is the slot of the state: that of the environment, unless
    `slots` chooses another. Without `lasts`, the state is of one run and has its own checkpoints; those of other runs
    are not touched."""

    root: Path
    name: str
    environment: str = "default"
    application: str | None = None
    lasts: bool = True
    carried: tuple[tuple[str, str], ...] = ()
    """Queries that use the checkpoint of another name, and that name."""

    def with_slot(self, slot: str) -> "ProjectPlace":
        return replace(self, environment=slot)

    @property
    def namespace(self) -> str:
        return f"{self._deployment}/{self.environment}"

    @property
    def is_of_pipeline(self) -> bool:
        return self.name.startswith("pipeline.")

    @property
    def offsets_namespace(self) -> str:
        """The public namespace of a pipeline's offsets in a store."""
        return self.application or self.name.partition(".")[2]

    @property
    def state_file(self) -> Path:
        return self.root / HOME / "state.db"

    @property
    def logs(self) -> Path:
        return self.root / HOME / "logs"

    @property
    def topics(self) -> Path:
        return self.root / TOPICS

    @property
    def lock_file(self) -> Path:
        return self._own / "run" / "lock"

    @property
    def replay_lock(self) -> Path:
        """The lock of `errors replay` and `errors discard`. A run may be active at the same time."""
        return self._own / "run" / "letters-lock"

    def checkpoint(self, query: str) -> Path:
        return self._checkpoints / short_directory_name(self._original_name(query))

    def heartbeat_directory(self, query: str) -> Path:
        return self._own / "beats" / short_directory_name(self._original_name(query))

    def _original_name(self, query: str) -> str:
        """The original name of a query. Another query that has that name now uses another directory."""
        names = dict(self.carried)
        return names.get(query, f"{query}{_ANOTHER}" if query in names.values() else query)

    def group(self, reader: str, chosen: str | None = None) -> str:
        """The consumer group of a reader; `chosen` is its configured prefix."""
        if chosen is not None:
            return f"{chosen}-{reader}"
        named = self.environment.partition("@")[0]
        environment = () if named == "default" else (named,)
        return "-".join(("penstock", self._deployment.partition(".")[2], *environment, reader))

    def existing_topics(self) -> Iterator[str]:
        if self.topics.is_dir():
            yield from (p.name for p in self.topics.iterdir() if p.is_dir())

    def filled_topics(self) -> Iterator[str]:
        """Topics with batches that a query has written."""
        for topic in self.existing_topics():
            if next((self.topics / topic).glob(f"*/{NOTE}"), None) is not None:
                yield topic

    def existing_checkpoints(self) -> Iterator[str]:
        """Queries with a checkpoint."""
        root = self._checkpoints
        if root.is_dir():
            begun = (p for p in root.iterdir() if (p / "metadata").is_file() or last_batch(p, "offsets") >= 0)
            called = {old: new for new, old in self.carried}
            for name in (unquote(p.name) for p in begun):
                yield called.get(name, name.removesuffix(_ANOTHER))

    def last_batch(self, query: str, log: BatchLog) -> int:
        """The number of the last batch that was planned or committed; -1 before the first."""
        return last_batch(self.checkpoint(query), log)

    @property
    def _checkpoints(self) -> Path:
        return self._own / ("checkpoints" if self.lasts else "passing")

    @property
    def _deployment(self) -> str:
        return f"{self.name}@{self.application}" if self.application else self.name

    @property
    def _own(self) -> Path:
        return self.root / HOME / short_directory_name(self._deployment) / short_directory_name(self.environment)


def last_batch(checkpoint: Path, log: BatchLog) -> int:
    """The number of the last batch of a checkpoint that was planned or committed; -1 before the first."""
    number = last_number(checkpoint / log)
    return -1 if number is None else number


def last_number(log: Path) -> int | None:
    """The highest number in a log: a directory of files named by numbers."""
    return max((int(path.name) for path in log.glob("*") if path.name.isdigit()), default=None)
