"""A project that runs while something happens around it."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from penstock.dev import processes
from penstock.runtime.run.start import start
from penstock.runtime.run.supervisor import Run
from penstock.workflow.stages import check, compile_project, plan_project
from tests.spark.running import Running

Step: TypeAlias = Callable[[Run], Any]
"""Tried again and again until it is true."""


def live(running: Running, *story: Step, within: float = 300) -> None:
    """Run what is written until every step of a story has come true, one after the other."""
    checked = check(running.root / running.entry)
    plan = plan_project(checked, compile_project(checked))
    store = checked.store
    run = start(plan, running.spark, checked.place, store, environ=checked.environ, clusters=checked.clusters)
    left, ends = list(story), time.monotonic() + within

    def look() -> None:
        assert time.monotonic() < ends, f"{len(left)} steps are left: {run.board.snapshot()}"
        if not left:
            run.stop()
        elif left[0](run):
            left.pop(0)
        time.sleep(0.2)

    try:
        run.run_until_stopped(look)
    finally:
        run.close()
    assert not left


def done(action: Callable[[], Any]) -> Step:
    """A step that is done once."""

    def step(_: Run) -> bool:
        action()
        return True

    return step


def paused(home: Path) -> Step:
    """A step that lets a service of `penstock dev` stand still: it takes connections, and answers nothing."""
    return done(lambda: _signal(home, signal.SIGSTOP))


def resumed(home: Path) -> Step:
    return done(lambda: _signal(home, signal.SIGCONT))


def _signal(home: Path, number: int) -> None:
    found = processes.find(home)
    assert found is not None
    os.killpg(found.pid, number)
