"""Processes that outlive the command, recorded in a note next to their data."""

import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.errors import ServiceError

NOTE: Final = "service.json"
PORT: Final = "port"
"""The file with the port of a service, which is kept while the service does not run."""
_STOP_SECS: Final = 20
_PORTS: Final = range(20_000, 32_768)
_GIVEN: Final[set[int]] = set()
"""Ports that this process has assigned to services."""
_CHILDREN: Final[dict[int, subprocess.Popen[bytes]]] = {}
"""Processes that this process started and has not seen end."""


@dataclass(frozen=True, slots=True)
class RunningService:
    """A running service: its process, its start time, and what clients need to know."""

    pid: int
    born: str
    about: Mapping[str, Any]
    ends_by: int = signal.SIGTERM
    """The signal for a clean shutdown."""


def start(
    name: str,
    home: Path,
    command: Sequence[str | Path],
    about: Mapping[str, Any],
    is_ready: Callable[[], bool],
    *,
    seconds: int = 180,
    user: int | None = None,
    cwd: Path | None = None,
    ends_by: int = signal.SIGTERM,
) -> RunningService:
    """Start a process in a session of its own, record it, and wait until it is ready. Its output goes to a log."""
    home.mkdir(parents=True, exist_ok=True)
    log = home / "log.txt"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=cwd or home,
            start_new_session=True,
            user=user,
        )
    _CHILDREN[process.pid] = process
    running = RunningService(process.pid, _start_time(process.pid), about, ends_by)
    note = home / NOTE
    noted = {"pid": running.pid, "born": running.born, "about": dict(about), "ends_by": int(ends_by)}
    note.write_text(json.dumps(noted), encoding="utf-8")
    ends = time.monotonic() + seconds
    while not is_ready():
        if process.poll() is not None or time.monotonic() > ends:
            why = f"it ended with {process.returncode}" if process.returncode is not None else f"not within {seconds} s"
            stop(home)
            raise ServiceError("dev-not-started", f"{name} did not start: {why}; {_last_line(log)}", hint=f"see {log}")
        time.sleep(0.1)
    return running


def run_to_end(what: str, command: Sequence[str | Path], *, user: int | None = None, cwd: Path | None = None) -> None:
    """Run a command. Raise a ServiceError with the last line of its output if it fails."""
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, user=user, cwd=cwd)
    if ended.returncode != 0:
        lines = (ended.stderr or ended.stdout).strip().splitlines()
        raise ServiceError("dev-not-started", f"{what}: {lines[-1] if lines else 'no reason given'}")


def find(home: Path) -> RunningService | None:
    """Return the service with data in this directory; None if it does not run."""
    try:
        note = json.loads((home / NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    running = RunningService(int(note["pid"]), str(note["born"]), note["about"], note.get("ends_by", signal.SIGTERM))
    return running if running.born and _start_time(running.pid) == running.born else None


def stop(home: Path) -> bool:
    """Stop the service with data in this directory. Returns whether it ran. It gets time for a clean shutdown."""
    running = find(home)
    if running is not None:
        for sign in (running.ends_by, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(running.pid, sign)
            if _wait_for_end(running):
                break
    (home / NOTE).unlink(missing_ok=True)
    return running is not None


def _wait_for_end(running: RunningService) -> bool:
    ends = time.monotonic() + _STOP_SECS
    while time.monotonic() < ends:
        child = _CHILDREN.get(running.pid)
        if child is not None and child.poll() is not None:
            del _CHILDREN[running.pid]
        if _start_time(running.pid) != running.born:
            return True
        time.sleep(0.05)
    return False


def _start_time(pid: int) -> str:
    """Return the start time of a process, because a pid may be reused; empty for a missing process or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return _ps_start_time(pid)
    return "" if fields[0] == "Z" else fields[19]


def _ps_start_time(pid: int) -> str:
    if Path("/proc/self").exists():
        return ""
    return subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "its log is empty"


def free_port() -> int:
    """Return a port for a service that is about to start, and assign it to no other.

    It is outside the range from which the system assigns ports to any program: one could get it before the service has
    it, or while the service is stopped.
    """
    for port in random.SystemRandom().sample(_PORTS, 100):
        if port not in _GIVEN:
            with socket.socket() as free, suppress(OSError):
                free.bind(("127.0.0.1", port))
                _GIVEN.add(port)
                return port
    raise ServiceError("dev-not-started", "no port of this machine is free")


def own_port(home: Path, wanted: int | None = None) -> int:
    """Return the port of the service with data in this directory: `wanted`, else the port that it had before.

    It gets another port only if another program uses that one meanwhile.
    """
    note = home / PORT
    port = wanted or _noted_port(note) or free_port()
    home.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{port}\n", encoding="utf-8")
    return port


def _noted_port(note: Path) -> int | None:
    try:
        port = int(note.read_text(encoding="utf-8"))
        with socket.socket() as free:
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # earlier connections may still be closing
            free.bind(("127.0.0.1", port))
    except (OSError, ValueError, OverflowError):
        return None
    return port


def answers(port: int) -> bool:
    """Whether a program listens on a port of this machine."""
    with socket.socket() as asking:
        asking.settimeout(1)
        return asking.connect_ex(("127.0.0.1", port)) == 0


def responds(url: str) -> bool:
    """Whether a URL is answered without an error."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status < 400)
    except (urllib.error.URLError, OSError):
        return False
