"""The trigger that Spark is given, asked of Spark itself."""

from typing import Any

from penstock.runtime.run.listener import last_committed_batch
from penstock.runtime.run.start import start
from penstock.workflow.stages import check, compile_project, plan_project
from tests.spark.running import ORDERS, Running, order


def written(running: Running, advanced: str) -> Running:
    sql = "SELECT id FROM {{ source('orders') }}"
    model = f'project: {{name: p}}\nmodels: [{{name: m, sql: "{sql}", advanced: {advanced}}}]\n'
    return running.write({"sources/orders.yml": ORDERS, "stream_project.yml": model})


def trigger_of(running: Running, entry: str = ".") -> str:
    """The trigger of the query `m` while it runs."""
    checked = check(running.root / entry)
    plan = plan_project(checked, compile_project(checked))
    run = start(plan, running.spark, checked.place, checked.store, environ=checked.environ)
    seen: list[str] = []

    def look() -> None:
        query: Any = run._live["m"].query
        seen.append(str(query._jsq.streamingQuery().trigger()))
        run.stop()

    try:
        run.run_until_stopped(look)
    finally:
        run.close()
    return seen[0]


def test_a_batch_begins_at_once_unless_an_interval_is_given(running: Running) -> None:
    assert trigger_of(written(running, "{}")) == "ProcessingTimeTrigger(0)"
    assert (
        trigger_of(written(running, "{spark: {trigger: {interval_ms: 3600000}}}")) == "ProcessingTimeTrigger(3600000)"
    )


def test_the_last_batch_of_an_idle_query_is_one_that_it_committed(running: Running) -> None:
    written(running, "{}").drop("orders.v1", "1.jsonl", [order(1)])
    checked = check(running.root)
    run = start(plan_project(checked, compile_project(checked)), running.spark, checked.place, checked.store)
    seen: list[tuple[int, int | None]] = []

    def look() -> None:
        query: Any = run._live["m"].query
        if (progress := query.lastProgress) is not None and "addBatch" not in progress["durationMs"]:
            seen.append((progress["batchId"], last_committed_batch(query)))
            run.stop()

    try:
        run.run_until_stopped(look)
    finally:
        run.close()
    assert seen == [(1, 0)]


def test_run_once_does_not_wait_for_an_interval(running: Running) -> None:
    written(running, "{spark: {trigger: {interval_ms: 3600000}}}")
    for number in (1, 2):
        running.drop("orders.v1", f"{number}.jsonl", [order(number)])
        running.run()
    assert sorted(row["id"] for row in running.topic("m")) == [1, 2]


def test_a_pipeline_begins_batches_as_often_as_the_sink_wants_that_waits_the_shortest(running: Running) -> None:
    source = "sources: {m: {type: generator, columns: {id: {kind: sequence}}}}\n"
    slow, quick = (f"{{type: memory, from: m, batch_flush_interval: {interval}}}" for interval in ("2h", "1h"))
    running.write({"intervals.yml": f"{source}sinks: {{a: {slow}, b: {quick}, c: {{type: memory, from: m}}}}\n"})
    assert trigger_of(running, "intervals.yml") == "ProcessingTimeTrigger(3600000)"
