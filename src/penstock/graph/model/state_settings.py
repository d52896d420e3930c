"""Checks the state settings of a model: TTL and backend."""

from collections.abc import Iterator
from typing import Any, Final

from penstock.errors import Diagnostic, Severity
from penstock.graph.graph import Node
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration
from penstock.sql.analyze.analysis import QueryAnalysis

SHORT_MS: Final = 1000
"""Batches run about once a second, so a shorter TTL keeps nothing."""


def state_notes(declared: Declaration[written.Model], node: Node, found: QueryAnalysis) -> Iterator[Diagnostic]:
    """Report settings without effect, and a TTL that is probably a mistake. Other checks report queries that cannot
    run."""
    if not found.sound or found.problems or node.hindrances:
        return
    job = declared.value.advanced.spark
    if job.state_ttl_ms is not None and not found.keyed:
        why = "the watermark expires the state of windows and of joins within a time"
        text = f"this has no effect: {why if node.stateful else 'the query keeps no state'}"
        yield _diagnostic(declared, "state_ttl_ms", "no-effect", text, "remove it", Severity.INFO)
    elif job.state_ttl_ms is not None and job.state_ttl_ms < SHORT_MS:
        text = f"state is kept for {job.state_ttl_ms} ms only"
        hint = "the number is in milliseconds: 3600000 is an hour"
        yield _diagnostic(declared, "state_ttl_ms", "state-ttl-short", text, hint)
    is_view = node.materialized == "virtual_topic"
    for field in ("parallelism", "state_backend"):
        if is_view and getattr(job, field) is not None:
            yield no_effect_on_view(declared, field)
    if node.keyed and not is_view and job.state_backend == "hashmap":
        text = "this query always keeps its state in RocksDB"
        yield _diagnostic(declared, "state_backend", "no-effect", text, "write `rocksdb`, or remove it")


def no_effect_on_view(declared: Declaration[Any], field: str) -> Diagnostic:
    """Report a setting of a query that is set on a view."""
    text, hint = "a view has no query of its own", "set it on the models that read it"
    return _diagnostic(declared, field, "no-effect", text, hint)


def _diagnostic(
    declared: Declaration[Any], field: str, code: str, text: str, hint: str, severity: Severity = Severity.WARNING
) -> Diagnostic:
    return declared.diagnostic(code, text, hint, at=("advanced", "spark", field), severity=severity, field=field)
