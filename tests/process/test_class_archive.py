"""A JVM that starts Spark maps its classes from the archive that was made for it."""

from pathlib import Path

import pytest

from penstock.cli.class_training import train
from penstock.clients.jvm.java import find_java
from penstock.runtime.spark.class_archive import archive_option
from tests.process.cli import penstock

pytestmark = pytest.mark.process


def test_spark_starts_with_the_classes_of_the_archive(tmp_path: Path) -> None:
    train()
    assert archive_option(find_java()) is not None
    project = tmp_path / "shop"
    penstock("init", "shop", cwd=tmp_path)
    told = tmp_path / "classes.log"
    settings = project / "stream_project.yml"
    options = f"runtime: {{spark: {{config: {{spark.driver.extraJavaOptions: '-Xlog:class+load:file={told}'}}}}}}\n"
    settings.write_text(settings.read_text(encoding="utf-8") + options, encoding="utf-8")
    done = penstock("run", "--once", "--select", "orders_clean", cwd=project)
    assert done.returncode == 0, done.stderr
    loaded = told.read_text(encoding="utf-8").splitlines()
    archived = [line for line in loaded if "shared objects file (top)" in line and "org.apache.spark" in line]
    assert len(archived) > 3_000
