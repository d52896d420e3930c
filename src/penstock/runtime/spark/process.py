"""Spark's process: whether it has ended, and whether the operating system has killed processes."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.errors import ServiceError
from penstock.spark_internals.errors import is_connection_error
from penstock.spark_internals.jvm import JvmProcess, jvm_process

_END_SECS: Final = 2.0
"""How long to wait for a process that closes its connections to end."""


def is_spark_gone(error: BaseException) -> bool:
    """Whether a call into Spark failed because its process has ended, other than by `kill_process`."""
    process = jvm_process()
    if process is None or process.pid in _KILLED:
        return False
    if is_connection_error(error):
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_END_SECS)
    return process.poll() is not None


def kill_process(process: JvmProcess) -> None:
    """End Spark's process now. It does not count as lost."""
    _KILLED.add(process.pid)
    process.kill()


_KILLED: Final[set[int]] = set()


def spark_lost_error() -> ServiceError:
    """Return the error of a run whose Spark process has ended."""
    text = "Spark ended while queries ran" + (f": {OUT_OF_MEMORY}" if OomKills.has_occurred() else "")
    hint = MORE_MEMORY if OomKills.has_occurred() else "its log is in .penstock/logs"
    return ServiceError("spark-lost", text, hint=hint, internal=True)


OUT_OF_MEMORY: Final = "the operating system killed a process for lack of memory (OOM)"
MORE_MEMORY: Final = (
    "give the machine or the container more memory, or Spark less of it: `runtime.spark.config`, `spark.driver.memory`"
)


class OomKills:
    """Counts processes that were killed for lack of memory: in our control group, or on the machine."""

    _before: int | None = None

    @classmethod
    def start(cls) -> None:
        cls._before = oom_kills()

    @classmethod
    def has_occurred(cls) -> bool:
        """Whether a process was killed since `start`."""
        count = oom_kills()
        return cls._before is not None and count is not None and count > cls._before


def oom_kills(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the kernel's count, of our control group if it has one; None if there is no count."""
    counts = map(_count, (*_group_files(proc, groups), proc / "vmstat"))
    return next((count for count in counts if count is not None), None)


def _group_files(proc: Path, groups: Path) -> Iterator[Path]:
    """Return the counter files of control groups, version 1 and 2. A container may see its own group as the root."""
    with suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from (groups / path.lstrip("/") / "memory.events", groups / "memory.events")
            elif "memory" in controllers.split(","):
                memory = groups / "memory"
                yield from (memory / path.lstrip("/") / "memory.oom_control", memory / "memory.oom_control")


def _count(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        lines = file.read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
    return None
