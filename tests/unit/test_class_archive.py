"""The class archive: when it is used, made, and removed. That a JVM uses it is seen in tests/process."""

from pathlib import Path

import pytest

from penstock.clients.jvm.java import Java
from penstock.runtime.spark.class_archive import (
    KEPT_ARCHIVES,
    archive_file,
    archive_option,
    create_archive,
    needs_training,
)


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("PENSTOCK_CLASS_ARCHIVE", raising=False)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "spark-core.jar").write_bytes(b"1")
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.1"', encoding="utf-8")
    return Java(tmp_path / "java", 17)


def make_archive(java: Java) -> None:
    with create_archive(java) as target:
        assert target is not None
        target.write_bytes(b"classes")


def test_a_jvm_is_given_the_archive_when_there_is_one(java: Java) -> None:
    assert needs_training(java)
    assert archive_option(java) is None
    make_archive(java)
    assert not needs_training(java)
    assert archive_option(java) == f'"-XX:SharedArchiveFile={archive_file(java)}"'


def test_other_jars_or_another_java_need_another_archive(java: Java, tmp_path: Path) -> None:
    make_archive(java)
    (tmp_path / "spark" / "jars" / "spark-core.jar").write_bytes(b"23")
    assert archive_option(java) is None
    assert needs_training(java)
    make_archive(java)
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17.0.12"', encoding="utf-8")
    assert needs_training(java)


def test_archives_can_be_turned_off(java: Java, monkeypatch: pytest.MonkeyPatch) -> None:
    make_archive(java)
    monkeypatch.setenv("PENSTOCK_CLASS_ARCHIVE", "off")
    assert archive_option(java) is None
    archive_file(java).unlink()
    assert not needs_training(java)


def test_a_java_that_writes_no_archive_is_not_asked_again(java: Java) -> None:
    with create_archive(java):
        pass
    assert not needs_training(java)
    assert archive_option(java) is None


def test_an_archive_is_made_by_one_process_at_a_time(java: Java) -> None:
    with create_archive(java) as first:
        assert first is not None
        first.write_bytes(b"classes")
        with create_archive(java) as second:
            assert second is None
    assert archive_file(java).read_bytes() == b"classes"


def test_only_the_archives_used_last_are_kept(java: Java, tmp_path: Path) -> None:
    made = []
    for size in range(1, KEPT_ARCHIVES + 2):
        (tmp_path / "spark" / "jars" / "spark-core.jar").write_bytes(b"x" * size)
        make_archive(java)
        made.append(archive_file(java))
    assert [file.exists() for file in made] == [False, *[True] * KEPT_ARCHIVES]
