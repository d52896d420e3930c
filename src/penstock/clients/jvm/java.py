"""Finds a Java that Spark can use, before Spark fails without one."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.errors import ServiceError

OLDEST: Final = 17
HINT: Final = (
    "Debian or Ubuntu: `sudo apt-get install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`; "
    "anywhere: `pip install install-jdk && python -c \"import jdk; jdk.install('17', jre=True)\"`"
)


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: int

    def __str__(self) -> str:
        return f"Java {self.version} in {self.home}"


def find_java() -> Java:
    """Return the first Java that is new enough: from JAVA_HOME, then PATH, then those of `install-jdk`."""
    seen: list[Java] = []
    for home in _homes():
        version = _version(home)
        if version is not None:
            if version >= OLDEST:
                return Java(home, version)
            seen.append(Java(home, version))
    if seen:
        raise ServiceError("java-too-old", f"Spark needs Java {OLDEST} or newer, found {seen[0]}", hint=HINT)
    raise ServiceError("java-missing", f"Spark needs Java {OLDEST} or newer, and none was found", hint=HINT)


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if command := shutil.which("java"):
        yield Path(command).resolve().parent.parent
    for folder in (Path.home() / ".jdk", Path.home() / ".jre"):
        for found in sorted(folder.glob("*"), reverse=True):
            yield found / "Contents" / "Home" if (found / "Contents" / "Home").is_dir() else found


def _version(home: Path) -> int | None:
    java = home / "bin" / "java"
    if not java.is_file():
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        try:
            text = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
        except (OSError, subprocess.TimeoutExpired):
            return None
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None
