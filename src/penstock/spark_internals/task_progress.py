"""The progress of the running tasks of a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.spark_internals.jvm import active_context


@dataclass(frozen=True, slots=True)
class StageProgress:
    """A running stage: its tasks, and what they have read, if they report it."""

    tasks: int
    done: int
    rows: int
    bytes: int


def running_stages(job_group: str) -> list[StageProgress]:
    """Return the running stages of a group of jobs; empty as long as Spark has not registered them."""
    from penstock.spark_internals.errors import SPARK_ERRORS

    context = active_context()
    java: Any = context._jsc
    try:
        tracker, store = context.statusTracker(), java.sc().statusStore()
        jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(job_group))
        stages = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
        found = [store.lastStageAttempt(stage) for stage in stages]
        return [
            StageProgress(s.numTasks(), s.numCompleteTasks(), int(s.inputRecords()), int(s.inputBytes())) for s in found
        ]
    except SPARK_ERRORS:
        return []
