"""Locks: one runner per project, and one replay of its dead letters.

They are locks of the operating system. Spark's process inherits them: a lock is free when both our process and Spark's
have ended, so that a JVM that outlives a killed runner keeps a second writer out.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import PlanRefused, ServiceError

SPARK_END_SECS: Final = 30.0
"""How long to wait for the Spark process of a killed runner: it ends by itself when its input is closed."""
_POLL_SECS: Final = 0.1


@dataclass(frozen=True, slots=True)
class RunLock:
    """A lock that this process holds."""

    descriptor: int
    """The file descriptor, which Spark's process inherits."""

    def note_spark(self, pid: int) -> None:
        """Record the Spark process that holds the lock together with this one."""
        with suppress(OSError):  # the disk is full: the lock is held anyway
            os.pwrite(self.descriptor, f"{os.getpid()}\n{pid}\n".encode(), 0)


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock, from the lock's file: the runner, and its Spark process if it had started one."""

    pid: int | None
    spark_pid: int | None
    is_alive: bool
    """Whether the runner lives. If not, its Spark process holds the lock."""


@contextmanager
def run_lock(
    file: Path,
    busy: str = "this project is already running",
    hint: str = "stop it with `penstock stop`",
    *,
    say: Callable[[str], None] = lambda _: None,
    patience_secs: float = SPARK_END_SECS,
) -> Iterator[RunLock]:
    """Hold the lock until the block ends; `busy` is the message if another process holds it.

    If only the Spark process of a killed runner holds it, that process is waited for.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ServiceError("not-writable", f"cannot write {file}: {error.strerror}") from error
    try:
        _acquire_lock(handle, busy, hint, say, patience_secs)
        os.ftruncate(handle, 0)
        with suppress(OSError):
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield RunLock(handle)
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def lock_holder(file: Path) -> Holder | None:
    """Return the holder of the lock, if there is one."""
    try:
        handle = os.open(file, os.O_RDWR)
    except OSError:
        return None
    try:
        return None if _try_lock(handle) else _read_holder(handle)
    finally:
        os.close(handle)


def running_pid(file: Path) -> int | None:
    """Return the pid of the runner that holds the lock, if it lives."""
    holder = lock_holder(file)
    return holder.pid if holder is not None and holder.is_alive else None


def _acquire_lock(handle: int, busy: str, hint: str, say: Callable[[str], None], patience_secs: float) -> None:
    deadline = time.monotonic() + patience_secs
    has_said = False
    while not _try_lock(handle):
        holder = _read_holder(handle)
        if holder.is_alive:
            raise PlanRefused("already-running", f"{busy}, in process {holder.pid or 'unknown'}", hint=hint)
        if time.monotonic() > deadline:
            raise _spark_alive_error(holder)
        if not has_said:
            say(f"Waiting for {_describe_spark(holder)} to end.")
            has_said = True
        time.sleep(_POLL_SECS)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(handle: int) -> Holder:
    numbers = [int(word) for word in os.pread(handle, 64, 0).split() if word.isdigit()]
    pid, spark_pid = [*numbers, None, None][:2]
    return Holder(pid, spark_pid, pid is None or _is_alive(pid))


def _is_alive(pid: int) -> bool:
    """Whether a process lives. A zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def _spark_alive_error(holder: Holder) -> PlanRefused:
    text = f"{_describe_spark(holder)} has not ended, and may still write"
    spark = holder.spark_pid
    hint = "end it with `penstock stop`" if spark is None else f"end it with `penstock stop`, or `kill -9 {spark}`"
    return PlanRefused("already-running", text, hint=hint)


def _describe_spark(holder: Holder) -> str:
    spark = "the Spark process" if holder.spark_pid is None else f"Spark process {holder.spark_pid}"
    return f"{spark} of a run that was killed (process {holder.pid})"
