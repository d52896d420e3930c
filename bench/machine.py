"""What processes take of the machine: memory, sampled while something runs, the time of its cores, and their end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

EVERY_SECS = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def end_in_order() -> None:
    """Let a process that is told to end, by `timeout` for one, end the services that it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))


class Memory:
    """The most memory that this process, another one and all below that one had at a time."""

    def __init__(self, root: int) -> None:
        self._root = root
        self.peak_bytes = 0
        self.parts: dict[str, int] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        over = threading.Event()
        watching = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(EVERY_SECS):
            self._look()

    def _look(self) -> None:
        below = [pid for pid in _tree(self._root) if pid != self._root]
        parts = {
            "Python": _resident(os.getpid()),
            "JVM": _resident(self._root),
            f"Python workers ({len(below)})": sum(map(_resident, below)),
        }
        if sum(parts.values()) > self.peak_bytes:
            self.peak_bytes, self.parts = sum(parts.values()), parts

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {size / 1e6:,.0f}" for name, size in self.parts.items())
        return f"{self.peak_bytes / 1e6:,.0f} MB ({shares})"


class Others:
    """What share of the machine's cores others had since it was made: with much of it, times say little."""

    def __init__(self) -> None:
        self._at, self._busy, self._own = time.monotonic(), _busy_secs(), core_secs()

    def __str__(self) -> str:
        taken = _busy_secs() - self._busy - (core_secs() - self._own)
        share = taken / (time.monotonic() - self._at) / (os.cpu_count() or 1)
        return f"others had {max(0.0, share):.0%} of the cores"


def _busy_secs() -> float:
    """The time of all cores that was not idle."""
    line = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
    user, nice, system, _, _, irq, soft_irq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + soft_irq + steal) / _TICKS


def core_secs(*services: int) -> float:
    """The time of cores that this process and all below it have had, with those that have ended, and services too.

    Beside others on the machine, it says more than the time that has passed.
    """
    pids = {pid for root in (os.getpid(), *services) for pid in _tree(root)}
    return sum(sum(map(int, fields[11:15])) for fields in map(_stat, pids) if fields) / _TICKS


def run_and_measure(command: list[str], output: IO[bytes]) -> tuple[int, float, float]:
    """The exit code of a command, its wall-clock seconds, and the CPU seconds of it and of everything below it.

    Processes are looked at while they live: what ends without being waited for would be missing from its parent.
    """
    begun, spent = time.perf_counter(), dict[int, int]()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    while process.poll() is None:
        for pid in _tree(process.pid):
            if fields := _stat(pid):
                spent[pid] = sum(map(int, fields[11:13]))
        time.sleep(EVERY_SECS / 4)
    return process.returncode, time.perf_counter() - begun, sum(spent.values()) / _TICKS


def _stat(pid: int) -> list[str]:
    """What the system notes of a process, from its state on; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _tree(root: int) -> list[int]:
    """A process and all that it started, themselves or by others."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(path.name)):
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE
    except OSError:
        return 0
