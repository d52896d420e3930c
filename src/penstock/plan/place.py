"""Where a project keeps what it must remember: everything below `.penstock`, beside its documents."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from penstock.connectors.topic import TOPICS

HOME: Final = ".penstock"


@dataclass(frozen=True, slots=True)
class Place:
    root: Path
    project: str
    environment: str = "default"

    @property
    def namespace(self) -> str:
        return f"{self.project}/{self.environment}"

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

    def checkpoint(self, query: str) -> Path:
        return self._own / "checkpoints" / _folder(query)

    def existing_topics(self) -> Iterator[str]:
        if self.topics.is_dir():
            yield from (p.name for p in self.topics.iterdir() if p.is_dir())

    def existing_checkpoints(self) -> Iterator[str]:
        """Queries whose checkpoint has begun."""
        root = self._own / "checkpoints"
        if root.is_dir():
            yield from (unquote(p.name) for p in root.iterdir() if (p / "metadata").is_file())

    @property
    def _own(self) -> Path:
        return self.root / HOME / _folder(self.project) / _folder(self.environment)


def _folder(name: str) -> str:
    """A name as one directory: no separators, and nothing that means the directory itself or the one above."""
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if set(quoted) == {"."} else quoted
