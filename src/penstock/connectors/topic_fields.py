"""The fields that sources and sinks of embedded topics share."""

from pathlib import Path
from typing import Final, Self

from penstock.clients.rows.topic_names import TopicName
from penstock.config import FrozenModel

TOPICS: Final = Path(".penstock") / "topics"


class TopicFields(FrozenModel):
    topic: TopicName
    """The topic's name: letters, digits, `.`, `_` and `-`."""
    directory: Path | None = None
    """The directory of its files. Default: `.penstock/topics/<topic>`."""

    def path(self) -> Path:
        return self.directory or TOPICS / self.topic

    def with_root(self, root: Path) -> Self:
        return self.model_copy(update={"directory": root / self.path()})
