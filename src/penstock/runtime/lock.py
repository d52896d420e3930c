"""One runner per project, and one who delivers its letters. The locks are the operating system's, so they die with
the process that holds them."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import PlanRefused, ServiceError


@contextmanager
def run_lock(
    file: Path, busy: str = "this project is already running", hint: str = "stop it with `penstock stop`"
) -> Iterator[None]:
    """Hold the lock as long as the block lasts; `busy` is what to say where another process does."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ServiceError("not-writable", f"cannot write {file}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            raise PlanRefused("already-running", f"{busy}, in process {owner}", hint=hint) from None
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def running_pid(file: Path) -> int | None:
    """The process that holds the lock, if one does."""
    try:
        handle = os.open(file, os.O_RDWR)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(handle, 32).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(handle)
    return None
