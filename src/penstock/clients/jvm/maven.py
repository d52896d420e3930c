"""JVM packages: resolved from Maven repositories by the Ivy that comes with Spark, and kept in a cache of our own.

Neither Maven nor a Spark session is needed. The result is stored, so a later start sends no request.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from penstock.clients.jvm.java import find_java
from penstock.errors import ServiceError

_SECONDS: Final = 900
_PATTERN: Final = "[organisation]_[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True, slots=True)
class Package:
    """A package, by its Maven coordinates. `alone` excludes its dependencies.

    With `or_older`, the newest release of the same major version that is not newer than the version is used.
    """

    group: str
    artifact: str
    version: str
    classifier: str | None = None
    extension: str = "jar"
    alone: bool = False
    or_older: bool = False

    def __str__(self) -> str:
        return ":".join(filter(None, (self.group, self.artifact, self.version, self.classifier)))


def fetch(packages: Sequence[Package], cache: Path | None = None) -> list[Path]:
    """Return the files of the packages and, unless they are `alone`, of their dependencies. Downloads missing ones."""
    home = cache or cache_home()
    known = home / "sets" / f"{_digest(packages)}.json"
    if (files := _read_cached(known)) is not None:
        return files
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two Ivys on one empty cache find nothing
        if (files := _read_cached(known)) is not None:
            return files
        target = home / "files" / known.stem
        _resolve(packages, home, target)
        files = sorted(path for path in target.iterdir() if not path.name.startswith("."))
        known.parent.mkdir(parents=True, exist_ok=True)
        staged = known.with_suffix(f".{os.getpid()}")
        staged.write_text(json.dumps([str(path.relative_to(home)) for path in files]), encoding="utf-8")
        staged.replace(known)
        return files


def is_fetched(packages: Sequence[Package], cache: Path | None = None) -> bool:
    """Whether the packages are in the cache."""
    return _read_cached((cache or cache_home()) / "sets" / f"{_digest(packages)}.json") is not None


def unpack_archive(package: Package, cache: Path | None = None) -> Path:
    """Fetch a package that is an archive, and return the directory with its content."""
    (archive,) = fetch([package], cache)
    target = archive.parent / ".unpacked"
    if not target.is_dir():
        staged = archive.parent / f".unpacking.{os.getpid()}"
        with tarfile.open(archive) as content:
            content.extractall(staged, filter="data")
        with suppress(OSError):  # another process was quicker
            staged.rename(target)
        shutil.rmtree(staged, ignore_errors=True)
    return target


def cache_home() -> Path:
    """Return the cache directory: `PENSTOCK_CACHE`, or the user's."""
    if chosen := os.environ.get("PENSTOCK_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def _digest(packages: Sequence[Package]) -> str:
    names = "\n".join(f"{package} {package.extension} {package.alone} {package.or_older}" for package in packages)
    return hashlib.sha256(names.encode()).hexdigest()[:16]


def _read_cached(known: Path) -> list[Path] | None:
    try:
        files = [known.parent.parent / name for name in json.loads(known.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return None
    return files if files and all(path.is_file() for path in files) else None


def _resolve(packages: Sequence[Package], home: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    java = find_java().home / "bin" / "java"
    with tempfile.TemporaryDirectory() as folder:
        wanted, settings = Path(folder) / "ivy.xml", Path(folder) / "ivysettings.xml"
        wanted.write_text(_module(packages), encoding="utf-8")
        settings.write_text(_settings(packages), encoding="utf-8")
        command = [
            *(str(java), "-cp", str(_ivy()), "org.apache.ivy.Main", "-settings", str(settings)),
            *("-cache", str(home / "ivy"), "-ivy", str(wanted), "-confs", "default"),
            *("-retrieve", f"{target}/{_PATTERN}"),
        ]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise _unreachable(packages, f"nothing came within {_SECONDS} s") from error
    missing = _missing_packages(ended.stdout)
    if missing or ended.returncode != 0:
        lines = [line.strip() for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
        raise _unreachable(packages, f"not found: {', '.join(missing)}" if missing else lines[-1] if lines else "")


def _missing_packages(output: str) -> list[str]:
    """Return the packages that Ivy reports as not found, as coordinates."""
    found = [line.strip(" :\t") for line in output.splitlines() if line.strip().startswith("::")]
    names = [line.removesuffix(": not found") for line in found if line.endswith(": not found")]
    return [name.replace("#", ":").replace(";", ":") for name in dict.fromkeys(names)]


def _unreachable(packages: Sequence[Package], why: str) -> ServiceError:
    names = ", ".join(map(str, packages[:5])) + (" …" if len(packages) > 5 else "")
    hint = "check the network; a mirror is named in ~/.m2/settings.xml, or in an Ivy file (PENSTOCK_IVY_SETTINGS)"
    return ServiceError("jar-missing", f"packages cannot be fetched ({names}): {why}", hint=hint, retriable=True)


def spark_jars(pattern: str) -> list[Path]:
    """Return the jars that come with the installed PySpark, without loading it."""
    spark = find_spec("pyspark")
    folders = list(spark.submodule_search_locations or ()) if spark is not None else []
    return [path for folder in folders for path in Path(folder, "jars").glob(pattern)]


def _ivy() -> Path:
    """Return the jar of Ivy that comes with the installed Spark."""
    found = spark_jars("ivy-*.jar")
    if not found:
        raise ServiceError("package-missing", "pyspark is not installed with its libraries", hint="pip install pyspark")
    return found[0]


def _module(packages: Sequence[Package]) -> str:
    lines = []
    for package in packages:
        what = f"org={quoteattr(package.group)} name={quoteattr(package.artifact)} rev={quoteattr(_revision(package))}"
        transitive = "false" if package.alone else "true"
        part = "" if package.classifier is None else f" m:classifier={quoteattr(package.classifier)}"
        kind = quoteattr(package.extension)
        file = f"<artifact name={quoteattr(package.artifact)} type={kind} ext={kind}{part}/>"
        inner = file if package.classifier or package.extension != "jar" else ""
        lines.append(f'<dependency {what} conf="default->default" transitive="{transitive}">{inner}</dependency>')
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="penstock" module="own"/><configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _revision(package: Package) -> str:
    """Return the version for Ivy: a single name stands for a set of acceptable versions."""
    return f"not-after-{package.version}" if package.or_older else package.version


def _settings(packages: Sequence[Package]) -> str:
    """Return Ivy's settings: the repositories, as the user may configure, and the sets of acceptable versions."""
    chosen = os.environ.get("PENSTOCK_IVY_SETTINGS")
    matches = "".join(
        f'<match revision="{_revision(package)}" pattern="{_version_pattern(package.version)}" matcher="regexp"/>'
        for package in {package.version: package for package in packages if package.or_older}.values()
    )
    matchers = f'<version-matchers usedefaults="true"><pattern-vm>{matches}</pattern-vm></version-matchers>'
    if chosen:
        resolvers = f"<include file={quoteattr(str(Path(chosen).absolute()))}/>"
    else:
        mirror = _mirror()
        root = f" root={quoteattr(mirror)}" if mirror else ""
        central = f'<ibiblio name="central" m2compatible="true" usepoms="true"{root}/>'
        resolvers = f'<settings defaultResolver="central"/><resolvers>{central}</resolvers>'
    return f"<ivysettings>{resolvers}{matchers if matches else ''}</ivysettings>"


def _version_pattern(version: str) -> str:
    """Return a pattern for a major version's releases up to this one: `4.2.0` matches 4.1.7, not 4.2.1 or previews."""
    major, minor, patch = (int(part) for part in version.split("."))
    older = "|".join(str(number) for number in range(minor))
    latest = "|".join(str(number) for number in range(patch + 1))
    either = [rf"{minor}\.({latest})", *([rf"({older})\.\d+"] if older else [])]
    return rf"{major}\.({'|'.join(either)})"


def _mirror() -> str | None:
    """Return the URL of the mirror of Maven Central in the user's Maven settings, if there is one."""
    file = Path.home() / ".m2" / "settings.xml"
    try:
        tree = ElementTree.parse(file).getroot()
    except (OSError, ElementTree.ParseError):
        return None
    for node in tree.iter():
        if node.tag.rpartition("}")[2] == "mirror":
            entries = {child.tag.rpartition("}")[2]: (child.text or "").strip() for child in node}
            if entries.get("url") and {"*", "central", "external:*"} & set(entries.get("mirrorOf", "").split(",")):
                return entries["url"]
    return None
