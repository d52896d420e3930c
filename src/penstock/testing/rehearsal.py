"""Virtual time: runs a project under test, with a clock and event time that the test controls.

Rows are sent when the test sends them, in the batches that it defines. `until` moves the clock and advances event time
to it, so that windows close and waiting rows are written.
"""

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.clients.files.formats import FORMATS, files_under
from penstock.clients.files.parquet import all_rows
from penstock.graph.graph import Node
from penstock.manifest.model import Input, Manifest, QuerySpec
from penstock.row_columns import OP
from penstock.runtime.delivery.progress import QueryProgress
from penstock.runtime.query.watermark_heartbeat import write_heartbeat
from penstock.runtime.run.start import start
from penstock.workflow.stages import check, compile_project, plan_project

_ANY_LONG: Final = 10**15


class Rehearsal:
    """Runs the project at `root` in a Spark session of the caller. The clock starts at `now`, and is fixed."""

    def __init__(self, root: Path, spark: SparkSession, now: str = "2026-01-01T00:00:00Z") -> None:
        self.root = root
        self.spark = spark
        self.now_ms = _milliseconds(now)
        self._sent = 0

    def send(self, source: str, rows: Iterable[Mapping[str, Any]]) -> "Rehearsal":
        """Put rows into the topic of a source. Everything that is sent before the next `run` is one batch."""
        topic = self._check_project().graph[f"source.{source}"].element.topic
        folder = self.root / ".penstock" / "topics" / topic
        folder.mkdir(parents=True, exist_ok=True)
        self._sent += 1
        text = "".join(json.dumps(row, default=str) + "\n" for row in rows)
        (folder / f"{self._sent:06d}.json").write_text(text, encoding="utf-8")
        return self

    def run(self, *, select: Iterable[str] = ()) -> dict[str, QueryProgress]:
        """Process what was sent, at the current time of the clock."""
        checked = self._check_project()
        manifest = _add_heartbeats(compile_project(checked))
        plan = plan_project(checked, manifest, select=tuple(select), allow_rebuild=())
        store = checked.store
        run = start(plan, self.spark, checked.place, store, environ=checked.environ, now_ms=self.now_ms)
        try:
            run.run_once(lambda: time.sleep(0.02))
        finally:
            run.close()
        return {row.query: row for row in run.board.snapshot()}

    def until(self, moment: str) -> dict[str, QueryProgress]:
        """Move the clock, advance event time of every input to it, and process what follows from that."""
        self.now_ms = _milliseconds(moment)
        checked = self._check_project()
        moved: dict[str, str] = {}
        for query in compile_project(checked).queries:
            for entry in _timed_inputs(query):
                assert entry.event_time is not None
                directory = checked.place.heartbeat_directory(query.name)
                write_heartbeat(directory, entry, self.now_ms + entry.event_time.delay_ms)
            if _timed_inputs(query) or any(entry.node in moved for entry in query.inputs):
                moved |= {output.node: query.name for output in query.outputs}
        return self.run(select=moved.values()) if moved else {}

    def rows(self, model: str) -> list[dict[str, Any]]:
        """Return all rows that a model has written, including every change, in the order in which they were written."""
        return self._topic_rows(self._check_project().graph[f"model.{model}"])

    def table(self, model: str) -> list[dict[str, Any]]:
        """Return the rows of a model as a table, with its changes applied in order."""
        node = self._check_project().graph[f"model.{model}"]
        written = self._topic_rows(node)
        if node.flow == "rows":
            return written
        present: dict[str, list[dict[str, Any]]] = {}
        for row in written:
            operation = row.pop(OP)
            key = repr([row[name] for name in node.change_key] if node.change_key else sorted(row.items()))
            if node.change_key:
                present[key] = [] if operation == "d" else [row]
            elif operation == "d":
                present[key].pop()
            else:
                present.setdefault(key, []).append(row)
        return [row for rows in present.values() for row in rows]

    def _topic_rows(self, node: Node) -> list[dict[str, Any]]:
        assert node.topic is not None
        folder = self.root / ".penstock" / "topics" / node.topic.name
        files = files_under(folder, FORMATS["parquet"])
        return all_rows(sorted(files, key=lambda file: (file.stat().st_mtime_ns // 1_000_000, file)))

    def _check_project(self) -> Any:
        return check(self.root)


def _timed_inputs(query: QuerySpec) -> list[Input]:
    return [entry for entry in query.inputs if query.timed and entry.event_time is not None]


def _add_heartbeats(manifest: Manifest) -> Manifest:
    """Add heartbeats to every input of a manifest that has event time."""
    queries = []
    for query in manifest.queries:
        timed = {entry.view for entry in _timed_inputs(query)}
        inputs = tuple(_make_idle(entry) if entry.view in timed else entry for entry in query.inputs)
        queries.append(query.model_copy(update={"inputs": inputs}))
    return manifest.model_copy(update={"queries": tuple(queries)})


def _make_idle(entry: Input) -> Input:
    assert entry.event_time is not None
    return entry.model_copy(update={"event_time": entry.event_time.model_copy(update={"idle_ms": _ANY_LONG})})


def _milliseconds(moment: str) -> int:
    parsed = datetime.fromisoformat(moment)
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
