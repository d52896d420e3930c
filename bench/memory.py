"""How much memory processes have in use, sampled while something runs."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVERY_SECS = 0.2
_PAGE = os.sysconf("SC_PAGE_SIZE")


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
            f"{len(below)} Python workers": sum(map(_resident, below)),
        }
        if sum(parts.values()) > self.peak_bytes:
            self.peak_bytes, self.parts = sum(parts.values()), parts

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {size / 1e6:,.0f}" for name, size in self.parts.items())
        return f"{self.peak_bytes / 1e6:,.0f} MB ({shares})"


def _tree(root: int) -> list[int]:
    """A process and all that it started, themselves or by others."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except OSError:  # gone meanwhile
            continue
        children.setdefault(parent, []).append(int(path.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * _PAGE
    except OSError:
        return 0
