"""Dead letters of a project, delivered again."""

from penstock.runtime.replay.output_replay import ReplayResult
from penstock.runtime.replay.replay import replay_dead_letters
from penstock.workflow.dead_letters import pending_dead_letters
from penstock.workflow.stages import check, compile_project
from tests.spark.running import Running


def deliver(running: Running, name: str | None = None, *, overwrite: bool = False) -> dict[str, ReplayResult]:
    """Deliver the dead letters of one node, or all of them."""
    checked = check(running.root / running.entry)
    waiting = pending_dead_letters(checked, name)
    store = checked.store
    return {
        node: replay_dead_letters(
            compile_project(checked),
            node,
            [dead_letter for dead_letter in waiting if dead_letter.node == node],
            running.spark,
            checked.place,
            store,
            checked.environ,
            checked.clusters,
            overwrite=overwrite,
        )
        for node in {dead_letter.node for dead_letter in waiting}
    }
