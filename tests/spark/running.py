"""A project or pipeline that a test writes, runs inside the shared Spark session, and reads back."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from pyspark.sql import SparkSession

from penstock.clients.files.parquet import all_rows
from penstock.plan.deployed.place import ProjectPlace
from penstock.runtime.delivery.progress import QueryProgress
from penstock.runtime.run.preview import peek
from penstock.runtime.run.start import start
from penstock.runtime.run.supervisor import Run
from penstock.workflow.stages import check, compile_project, plan_project

ORDERS = """
sources:
  - name: orders
    topic: orders.v1
    columns:
      - {name: id, type: BIGINT}
      - {name: country, type: STRING}
      - {name: amount, type: DOUBLE}
      - {name: at, type: TIMESTAMP(3)}
    event_time:
      column: at
      watermark: {max_out_of_orderness_ms: 0}
"""


@dataclass(frozen=True, slots=True)
class Running:
    root: Path
    spark: SparkSession
    entry: str = "."

    @property
    def place(self) -> ProjectPlace:
        return check(self.root / self.entry).place

    def write(self, files: Mapping[str, str]) -> "Running":
        for name, text in files.items():
            _put(self.root / name, dedent(text))
        return self

    def drop(self, topic: str, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put a file of JSON Lines into an embedded topic, as a producer would."""
        _put(self.root / ".penstock" / "topics" / topic / name, "".join(json.dumps(row) + "\n" for row in rows))

    def run(self, *, select: Iterable[str] = (), allow_rebuild: Iterable[str] = ()) -> dict[str, QueryProgress]:
        """`run --once`, without a process of its own."""
        run = self.begun(select=tuple(select), allow_rebuild=tuple(allow_rebuild))
        try:
            run.run_once(lambda: time.sleep(0.02))
        finally:
            run.close()
        return {row.query: row for row in run.board.snapshot()}

    def run_on(self, stop: Callable[[], bool] = lambda: False) -> dict[str, QueryProgress]:
        """`run`, until it ends by itself or `stop` says so."""
        run = self.begun()

        def idle() -> None:
            time.sleep(0.02)
            if stop():
                run.stop()

        try:
            run.run_until_stopped(idle)
        finally:
            run.close()
        return {row.query: row for row in run.board.snapshot()}

    def begun(self, *, adopts_state: bool = False, carries: tuple[tuple[str, str], ...] = (), **options: Any) -> Run:
        checked = replace(check(self.root / self.entry), adopts_state=adopts_state, carries=carries)
        plan = plan_project(checked, compile_project(checked), **options)
        store = checked.store
        return start(plan, self.spark, checked.place, store, environ=checked.environ, clusters=checked.clusters)

    def uncommit(self, query: str, batch: int) -> None:
        """As if the process had died between writing a batch and committing it."""
        commits = self.place.checkpoint(query) / "commits"
        for name in (str(batch), f".{batch}.crc"):
            (commits / name).unlink(missing_ok=True)

    def topic(self, name: str) -> list[dict[str, Any]]:
        """The rows of an embedded topic that a model has written, read from its files."""
        return parquet_rows(self.root / ".penstock" / "topics" / name)

    def show(self, node_id: str, limit: int = 100) -> list[dict[str, Any]]:
        checked = check(self.root / self.entry)
        session = self.spark.newSession()
        return peek(compile_project(checked), node_id, checked.root, session, limit, checked.environ, checked.clusters)


def parquet_rows(folder: Path) -> list[dict[str, Any]]:
    """The rows of all Parquet files below a directory. Times are without a zone, in UTC."""
    return all_rows(path for path in sorted(folder.rglob("*.parquet")) if not path.name.startswith((".", "_")))


def _put(path: Path, text: str) -> None:
    """A file that is there as a whole or not at all: somebody may wait for it, and would take it half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_name(f".{path.name}.whole")
    whole.write_text(text, encoding="utf-8")
    whole.replace(path)


def order(
    number: int, *, country: str = "DE", amount: float = 10.0, at: str = "2026-01-01T00:00:00Z"
) -> dict[str, Any]:
    return {"id": number, "country": country, "amount": amount, "at": at}
