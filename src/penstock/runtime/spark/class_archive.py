"""The class archive: Spark's classes as parsed and verified by the JVM, stored for later starts.

Reading and verifying Spark's classes is half of the CPU time of a start. With class data sharing the JVM maps them from
a file. The file fits one Java and one set of jars, so its name is a digest of both; a JVM that finds anything changed
ignores the file and starts without it.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from penstock.clients.jvm.java import Java
from penstock.clients.jvm.maven import cache_home
from penstock.spark_internals.jvm import spark_home

SWITCH: Final = "PENSTOCK_CLASS_ARCHIVE"
KEPT_ARCHIVES: Final = 3
"""The number of archives to keep. Each takes about 170 MB; every Python environment of a user may have one."""


def is_enabled() -> bool:
    """Whether archives are used and created: unless `PENSTOCK_CLASS_ARCHIVE` is `off`."""
    return os.environ.get(SWITCH, "").lower() not in ("off", "0", "false", "no")


def archive_file(java: Java) -> Path:
    """Return the path of the archive for this Java and this Spark, whether it exists or not."""
    return cache_home() / "classes" / f"{_digest(java)}.jsa"


def archive_option(java: Java) -> str | None:
    """Return the JVM option for the archive; None if there is none."""
    file = archive_file(java)
    if not (is_enabled() and file.is_file()):
        return None
    with suppress(OSError):
        os.utime(file)  # so that archives in use are removed last
    return f'"-XX:SharedArchiveFile={file}"'


def needs_training(java: Java) -> bool:
    """Whether an archive should be created. What failed for this Java and this Spark is not tried again."""
    file = archive_file(java)
    return is_enabled() and not file.exists() and not file.with_suffix(".failed").exists()


@contextmanager
def create_archive(java: Java) -> Iterator[Path | None]:
    """Yield the path that a JVM must write its archive to when it exits; None if another process is creating it.

    After the block the archive is in place, or it is recorded that this Java wrote none.
    """
    file = archive_file(java)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        staged = file.with_suffix(".new")
        staged.unlink(missing_ok=True)
        yield staged
        if staged.is_file():
            staged.replace(file)
            _remove_old(file.parent)
        else:
            file.with_suffix(".failed").touch()


def _remove_old(folder: Path) -> None:
    files = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in files[KEPT_ARCHIVES:]:
        for path in folder.glob(f"{old.stem}.*"):
            path.unlink(missing_ok=True)


def _digest(java: Java) -> str:
    """Return a digest of what the JVM compares itself: the Java, and path, size and time of every jar."""
    home = spark_home()
    facts = [str(java.home.resolve()), str(home)]
    for file in (java.home / "release", *sorted((home / "jars").glob("*.jar"))):
        with suppress(OSError):
            stat = file.stat()
            facts.append(f"{file.name} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
