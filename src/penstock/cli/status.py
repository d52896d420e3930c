import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from penstock.cli import options, output
from penstock.cli.output import escape_controls
from penstock.cli.query_states import LIVE_STATES, counts_text, state_text
from penstock.clients.kafka.admin import KafkaAdmin
from penstock.clients.kafka.lag import lag_of
from penstock.manifest.model import QuerySpec
from penstock.plan.deployed.consumer_groups import groups
from penstock.plan.deployed.state import read_run_record
from penstock.workflow.stages import CheckedProject, check, compile_project


def command(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    lag: Annotated[
        bool, typer.Option("--lag", help="Ask Kafka for the lag of each query, in records and in seconds.")
    ] = False,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Show whether the project is running, and the progress of each query."""
    from penstock.runtime.run.lock import lock_holder

    checked = check(options.target(path, directory, env, config=config))
    recorded = read_run_record(checked.store, checked.place)
    holder = lock_holder(checked.place.lock_file)
    pid = holder.pid if holder is not None and holder.is_alive else None
    queries = [_correct_state(progress, pid) for progress in recorded.progress.values()]
    if lag:
        behind = _lag_by_query(checked)
        queries = [{**query, "lag": behind.get(query["query"], [])} for query in queries]
    if form is options.OutputFormat.JSON:
        output.put_json(
            {
                "project": checked.graph.name,
                "running": pid is not None,
                "pid": pid,
                "spark_pid": None if holder is None else holder.spark_pid,
                "revision": recorded.revision,
                "heartbeat_at": recorded.run.get("heartbeat_at"),
                "queries": queries,
            }
        )
        return
    if recorded.revision is None:
        output.put(f"{checked.graph.name} has never run. Start it with `penstock run`.")
        return
    state = f"runs in process {pid}" if pid else "is not running"
    output.put(f"{checked.graph.name} {state}; revision {recorded.revision}.")
    if holder is not None and pid is None:
        output.put(f"Spark process {holder.spark_pid} of a run that was killed has not ended: `penstock stop` ends it.")
    width = max((len(q["query"]) for q in queries), default=0)
    state_width = max((9, *(len(state_text(q)) for q in queries)))
    for query in queries:
        phase = f", phase {query['phase']}" if query.get("phase") else ""
        counts = f"{counts_text(query)}{phase}{_since(query)}"
        output.put(f"  {query['query']:<{width}}  {state_text(query):<{state_width}} {counts}")
        for line in _describe_trouble(query):
            output.put(f"  {'':<{width}}  {line}")
        for partition in query.get("lag", ()):
            output.put(f"  {'':<{width}}  {_partition_line(partition)}")


def _lag_by_query(checked: CheckedProject) -> dict[str, list[dict[str, Any]]]:
    """The lag of each query that reads Kafka, by query and partition."""
    source, queries = checked.clusters.source, compile_project(checked).queries
    if source is None or not any(entry.topic is not None for query in queries for entry in query.inputs):
        return {}
    admin = KafkaAdmin(source.kafka)
    found: dict[str, list[dict[str, Any]]] = {}
    for query in queries:
        begun, shown = _start_positions(query, checked, admin), groups(query, checked.place, source.group)
        lags = (lag for group, topics in shown.items() for lag in lag_of(admin, group, topics, begun))
        found[query.name] = [lag.to_json() for lag in lags]
    return found


def _start_positions(query: QuerySpec, checked: CheckedProject, admin: KafkaAdmin) -> dict[tuple[str, int], int]:
    """The offsets at which a query began to read, or would begin now."""
    from penstock.runtime.checkpoint.layout import start_offset
    from penstock.runtime.checkpoint.offset_commit import parse_positions

    found: dict[tuple[str, int], int] = {}
    for entry in (entry for entry in query.inputs if entry.topic is not None):
        begun = parse_positions(start_offset(checked.place.checkpoint(query.name), entry.name))
        if not begun and entry.source.get("starting_offsets") == "latest":
            begun = admin.ends([str(entry.topic)])
        found |= begun
    return found


def _partition_line(partition: Mapping[str, Any]) -> str:
    waits = "" if not partition["seconds"] else f", {partition['seconds']:,.1f} s"
    return f"{partition['topic']}/{partition['partition']}: {partition['records']:,} behind{waits}"


def _correct_state(document: Mapping[str, Any], pid: int | None) -> dict[str, Any]:
    """Correct the recorded state: a killed process could not record its end."""
    if pid is not None or document["state"] not in LIVE_STATES:
        return dict(document)
    return {**document, "state": "not started" if document["state"] == "waiting" else "killed"}


def _describe_trouble(query: Mapping[str, Any]) -> Iterator[str]:
    """The error of a query, and its retries."""
    if retry := query.get("retry"):
        yield f"retry {retry['attempt']:,}, since {_moment(retry['since'])}"
    if error := query.get("error"):
        yield escape_controls(error["message"] if isinstance(error, Mapping) else str(error))
        if isinstance(error, Mapping) and error.get("hint"):
            yield f"    hint: {error['hint']}"
    if names := query.get("waiting_for"):
        yield f"waiting for {', '.join(f'`{name}`' for name in names)}"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _since(query: dict[str, Any]) -> str:
    at = query["last_batch_at"]
    return f", last batch {_moment(at)}" if at else ""
