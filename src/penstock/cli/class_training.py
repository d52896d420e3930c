"""Builds the class archive: runs a small project once, in a JVM that archives its classes when it exits.

`python -m penstock.cli.class_training`. `run` starts it in the background when it ends, unless there is an archive.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

TRAINING_MODELS: Final = """models:
  - name: orders_by_country
    sql: SELECT country, COUNT(*) AS orders FROM {{ ref("orders_clean") }} GROUP BY country
"""
EXIT_SECS: Final = 600
"""How long a JVM may take to write its archive. At the lowest priority it can take minutes."""


def begin_training() -> None:
    """Build the archive in the background if there is none. Never fails: without an archive a start is only slower."""
    from penstock.clients.jvm.java import find_java
    from penstock.runtime.spark.class_archive import needs_training

    try:
        if needs_training(find_java()):
            subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.class_training"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd=tempfile.gettempdir(),
            )
    except OSError:
        return


def train() -> None:
    """Build the archive now, unless it exists or another process builds it."""
    from penstock.clients.jvm.java import find_java
    from penstock.runtime.spark.class_archive import create_archive, needs_training

    java = find_java()
    if not needs_training(java):
        return
    with create_archive(java) as target:
        if target is not None:
            _run_project(target)


def _run_project(archive: Path) -> None:
    """The quickstart and a model with keyed state: file readers, windows, Python workers, what every project needs."""
    from penstock.cli.init import write_project
    from penstock.cli.sample import write_minute
    from penstock.runtime.run.start import start
    from penstock.runtime.spark.session import spark_session
    from penstock.workflow.stages import check, compile_project, plan_project

    with tempfile.TemporaryDirectory(prefix="penstock-classes-") as folder:
        project = Path(folder) / "training"
        write_project(project, "training")
        (project / "models" / "training.yml").write_text(TRAINING_MODELS, encoding="utf-8")
        write_minute(project, 0, 100)
        checked = check(project)
        manifest = compile_project(checked)
        # Without the second compiler and the parallel collector it takes half of the time.
        options = f'"-XX:ArchiveClassesAtExit={archive}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable'
        spec = manifest.spark.model_copy(update={"config": {"spark.driver.extraJavaOptions": options}})
        with spark_session(spec, checked.place.logs, exit_secs=EXIT_SECS) as spark:
            run = start(plan_project(checked, manifest, once=True), spark, checked.place, checked.store)
            try:
                run.run_once(lambda: time.sleep(0.1))
            finally:
                run.close()


if __name__ == "__main__":
    os.nice(19)
    train()
