"""Packages of the JVM: what is asked for, where, and what is remembered."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.clients.jvm import maven
from penstock.clients.jvm.java import find_java
from penstock.clients.jvm.maven import Package
from penstock.errors import ServiceError

MIRROR = """<settings xmlns="http://maven.apache.org/SETTINGS/1.2.0"><mirrors><mirror>
  <id>own</id><mirrorOf>central</mirrorOf><url>https://mirror.example/maven</url>
</mirror></mirrors></settings>"""


def test_a_mirror_in_the_settings_of_maven_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "root=" not in maven._settings([])
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text(MIRROR)
    assert 'root="https://mirror.example/maven"' in maven._settings([])


POM = """<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>
<artifactId>{name}</artifactId><version>{version}</version><dependencies>{needs}</dependencies></project>"""
NEEDS = "<dependency><groupId>org.example</groupId><artifactId>b</artifactId><version>1.0</version></dependency>"
VERSIONS = """<metadata><groupId>org.example</groupId><artifactId>a</artifactId><versioning><versions>
<version>4.1.2</version><version>4.3.0</version></versions></versioning></metadata>"""


def test_packages_and_what_they_need_come_from_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "mirror" / "org" / "example"
    for name, version, needs in (("a", "4.1.2", NEEDS), ("a", "4.3.0", ""), ("b", "1.0", "")):
        folder = repository / name / version
        folder.mkdir(parents=True)
        (folder / f"{name}-{version}.pom").write_text(POM.format(name=name, version=version, needs=needs))
        (folder / f"{name}-{version}.jar").write_text(f"{name} {version}")
    (repository / "a" / "maven-metadata.xml").write_text(VERSIONS)
    (tmp_path / ".m2").mkdir()
    mirror = (tmp_path / "mirror").as_uri()
    (tmp_path / ".m2" / "settings.xml").write_text(MIRROR.replace("https://mirror.example/maven", mirror))
    monkeypatch.setenv("JAVA_HOME", str(find_java().home))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = maven.fetch([Package("org.example", "a", "4.2.0", or_older=True)], tmp_path / "cache")
    assert [path.read_text() for path in found] == ["a 4.1.2", "b 1.0"]


def test_what_was_found_once_is_not_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(packages: object, home: Path, target: Path) -> None:
        target.mkdir(parents=True)
        (target / "a.jar").write_text("")

    monkeypatch.setattr(maven, "_resolve", found)
    package = Package("org.example", "a", "1")
    first = maven.fetch([package], tmp_path)
    monkeypatch.setattr(maven, "_resolve", None)
    assert maven.fetch([package], tmp_path) == first == [first[0]]
    first[0].unlink()
    with pytest.raises(TypeError):
        maven.fetch([package], tmp_path)


def test_who_comes_while_another_fetches_waits_for_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def found(packages: Sequence[Package], home: Path, target: Path) -> None:
        begun.append(packages[0].artifact)
        time.sleep(0.2)
        target.mkdir(parents=True)
        (target / "some.jar").write_text("")
        begun.append("done")

    monkeypatch.setattr(maven, "_resolve", found)
    with ThreadPoolExecutor(4) as several:
        names = ("a", "a", "b", "a")
        fetched = list(several.map(lambda name: maven.fetch([Package("org.example", name, "1")], tmp_path), names))
    assert fetched[0] == fetched[1] == fetched[3] != fetched[2]
    assert (sorted(begun[::2]), begun[1::2]) == (["a", "b"], ["done", "done"])


def test_a_package_that_is_nowhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "repository"
    empty.mkdir()
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers>'
        f'<ibiblio name="own" m2compatible="true" root="{empty.as_uri()}/"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(settings))
    with pytest.raises(ServiceError, match=r"not found: org\.example:nothing:1") as failed:
        maven.fetch([Package("org.example", "nothing", "1")], tmp_path / "cache")
    assert failed.value.code == "jar-missing"


def test_the_newest_release_that_is_not_newer_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "repository"
    for version in ("3.9.9", "4.0.1", "4.1.0", "4.1.12", "4.2.0-preview1", "4.2.1", "5.0.0"):
        folder = repository / "org" / "example" / "a" / version
        folder.mkdir(parents=True)
        (folder / f"a-{version}.jar").write_text(version)
        (folder / f"a-{version}.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
            f"<artifactId>a</artifactId><version>{version}</version></project>"
        )
    settings = tmp_path / "ivysettings.xml"
    pattern = f"{repository}/[organisation]/[module]/[revision]/[module]-[revision]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers><filesystem name="own" m2compatible="true">'
        f'<ivy pattern="{pattern}.pom"/><artifact pattern="{pattern}.[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("PENSTOCK_IVY_SETTINGS", str(settings))
    (found,) = maven.fetch([Package("org.example", "a", "4.2.0", or_older=True)], tmp_path / "cache")
    assert found.read_text() == "4.1.12"


@pytest.mark.parametrize(
    ("version", "will_do"),
    [("4.2.0", True), ("4.1.1", True), ("4.0.0", True), ("4.2.1", False), ("4.1.0-preview1", False), ("3.9.0", False)],
)
def test_versions_that_will_do(version: str, will_do: bool) -> None:
    assert bool(re.fullmatch(maven._version_pattern("4.2.0"), version)) == will_do
