"""Real services that a test may end, start again, and let fall silent: they come back at the same place."""

import os
import signal
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path

from penstock.dev import clickhouse, kafka, postgres, processes
from tests.endpoint import HANG, Endpoint, Says


class Mortal(ABC):
    """A service of `penstock dev`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = processes.free_port()
        self.up()

    @abstractmethod
    def up(self) -> None:
        """Start it, at its port and with the data it has."""

    def restart(self) -> None:
        processes.stop(self.home)
        self.up()

    def silence(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, sign: int) -> None:
        """For the service and everybody who works for it, also those in groups of their own."""
        found = processes.find(self.home)
        assert found is not None
        children = Path(f"/proc/{found.pid}/task/{found.pid}/children").read_text(encoding="utf-8").split()
        for pid in (found.pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, sign)


class MortalPostgres(Mortal):
    def up(self) -> None:
        postgres.up(self.home, self.port)


class MortalClickHouse(Mortal):
    def up(self) -> None:
        clickhouse.up(self.home, self.port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class MortalKafka(Mortal):
    def up(self) -> None:
        kafka.up(self.home, port=self.port)


class MortalEndpoint:
    """An HTTP server. To one that starts again, connections break: that is all that a client sees of it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def restart(self) -> None:
        self.endpoint.plan = [Says(does="reset"), Says(503, b"starting"), *self.endpoint.plan]

    def silence(self) -> None:
        self.endpoint.always = HANG

    def resume(self) -> None:
        self.endpoint.always = Says()
        self.endpoint.released.set()
