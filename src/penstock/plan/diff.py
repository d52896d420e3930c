"""diff: Manifest and Deployed -> Plan. Pure: it looks at two values and nothing else."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from penstock.connectors import registry
from penstock.errors import Diagnostic
from penstock.manifest.model import Input, KeyedStep, Manifest, Output, Parameter, QuerySpec
from penstock.manifest.model import Step as SqlStep
from penstock.plan.state import Checkpoint, Deployed
from penstock.plan.steps import (
    CreateTopic,
    Plan,
    RebuildQuery,
    RestartQuery,
    ResumeQuery,
    RetireQuery,
    StartQuery,
    Step,
)
from penstock.project.variables import Environ, references


def diff(
    manifest: Manifest,
    deployed: Deployed,
    *,
    select: Collection[str] = (),
    allow_rebuild: Collection[str] = (),
    environ: Environ | None = None,
) -> Plan:
    """The steps from what is deployed to what the manifest says. `select` restricts them to queries by name.

    With `environ`, queries that need a variable which is not in it are refused.
    """
    chosen = [q for q in manifest.queries if not select or q.name in select]
    steps: list[Step] = [
        CreateTopic(topic)
        for topic in manifest.topics
        if topic.name not in deployed.topics and _wanted(topic.node, chosen, manifest, bool(select))
    ]
    steps += [_query_step(query, deployed, manifest, allow_rebuild) for query in chosen]
    if not select:
        present = {q.name for q in manifest.queries}
        steps += [RetireQuery(name) for name in deployed.queries if name not in present]
    refusals = [*_not_runnable(manifest, chosen, bool(select)), *_not_allowed(steps)]
    if environ is not None:
        refusals += [refusal for query in chosen for refusal in _unset(query, environ)]
    return Plan(manifest, tuple(steps), tuple(refusals))


def _wanted(node_id: str, chosen: list[QuerySpec], manifest: Manifest, restricted: bool) -> bool:
    written = any(output.node == node_id for query in chosen for output in query.outputs)
    return written or (not restricted and manifest.producer(node_id) is None)


def _query_step(query: QuerySpec, deployed: Deployed, manifest: Manifest, allow_rebuild: Collection[str]) -> Step:
    before = deployed.queries.get(query.name)
    checkpoint = deployed.checkpoints.get(query.name)
    reason = _reason_to_rebuild(query, before, checkpoint, deployed, manifest)
    asked = query.name in allow_rebuild
    if reason or (asked and checkpoint):
        return RebuildQuery(query, reason or "you asked for it", asked)
    if before is None:
        begun = checkpoint is not None and checkpoint.begun
        return RestartQuery(query, _NO_RECORD) if begun else StartQuery(query)
    if before.fingerprint == query.fingerprint:
        return ResumeQuery(query)
    return RestartQuery(query, "; ".join(reason for reason, _ in _differences(before, query)))


_NO_RECORD: Final = "its checkpoint is there, but no record of what it ran"


def _reason_to_rebuild(
    query: QuerySpec,
    before: QuerySpec | None,
    checkpoint: Checkpoint | None,
    deployed: Deployed,
    manifest: Manifest,
) -> str | None:
    """Why going on would lose rows, double them, or not be possible; None if nothing of that kind is so."""
    if checkpoint is None and before is not None:
        return "its checkpoint is gone"
    if checkpoint is None:
        earlier = _same_target(query, deployed, manifest)
        filled = any(o.sink.get("topic") in deployed.filled for o in query.outputs if o.sink["type"] == "topic")
        return f"`{earlier}` wrote to the same place before" if earlier else (_FILLED if filled else None)
    if deployed.moved_from and checkpoint.begun:
        return f"the project was moved here from {deployed.moved_from}, and its checkpoint knows files by full path"
    if before is None:
        return _NO_RECORD if query.stateful and checkpoint.begun else None
    breaking = [reason for reason, breaks in _differences(before, query) if breaks]
    gone = {i.name for i in before.inputs} - {i.name for i in query.inputs}
    if gone and checkpoint.unfinished:
        breaking.append("its last batch is unfinished, and an input of that batch is gone")
    return "; ".join(breaking) or None


_FILLED: Final = "its topic already holds rows of an earlier run"


def _same_target(query: QuerySpec, deployed: Deployed, manifest: Manifest) -> str | None:
    """A query that is gone under its name, but wrote where this one is to write: rows would come twice."""
    present = {q.name for q in manifest.queries}
    targets = [_target(output) for output in query.outputs]
    gone = (q for name, q in deployed.queries.items() if name not in present and name in deployed.checkpoints)
    return next((q.name for q in gone if any(_target(output) in targets for output in q.outputs)), None)


def _target(output: Output) -> dict[str, Any]:
    return {key: value for key, value in output.sink.items() if key not in ("from", "primary_key")}


def _differences(before: QuerySpec, after: QuerySpec) -> Iterator[tuple[str, bool]]:
    """What changed, and whether Spark refuses to go on with the old checkpoint because of it.

    Filters, projections and outputs of a query without state may change freely, and inputs may come or go: its
    checkpoint holds only how far each named input was read. One input in place of another would be read from its start.
    State is another matter: its layout follows from the SQL.
    """
    stateful = before.stateful or after.stateful
    if before.stateful != after.stateful:
        yield ("it keeps state now" if after.stateful else "it no longer keeps state"), True
    elif list(map(_work, before.steps)) != list(map(_work, after.steps)):
        yield "its SQL changed" + (", and its state belongs to the old SQL" if stateful else ""), stateful
    elif _ttls(before) != _ttls(after):
        yield "its state is kept for another time", False
    gone = {i.name for i in before.inputs} - {i.name for i in after.inputs}
    new = {i.name for i in after.inputs} - {i.name for i in before.inputs}
    if gone or new:
        yield "it reads from other inputs", stateful or bool(gone and new)
    elif before.inputs != after.inputs:
        fits = all(map(_keeps_state, before.inputs, after.inputs))
        yield "an input is read in another way", stateful and not fits
    if before.outputs != after.outputs:
        yield "it is written to another place or in another way", False
    if before.conf != after.conf:
        yield "its parallelism or its state backend changed", stateful
    if before.trigger != after.trigger:
        yield "its trigger changed", False
    if before.asks != after.asks:
        yield "a model that it asks is another one", False
    if before.fan_out != after.fan_out:
        yield "its rows are shared out in another way", False


def _work(step: SqlStep | KeyedStep) -> str | KeyedStep:
    """What a step does, whatever its parameters, whether late rows are kept, and however long it remembers.

    State only tells whether it forgets.
    """
    if isinstance(step, SqlStep):
        return step.sql
    forgets = 1 if step.operator.ttl_ms is not None else None
    return step.model_copy(update={"operator": replace(step.operator, ttl_ms=forgets), "late": None})


def _ttls(query: QuerySpec) -> list[int | None]:
    return [step.operator.ttl_ms for step in query.steps if isinstance(step, KeyedStep)]


def _keeps_state(before: Input, after: Input) -> bool:
    """Whether state made from an input still fits it: columns may come, but not go or change, nor may event time."""
    old = {c["name"]: c["type"] for c in before.source.get("columns", ())}
    new = {c["name"]: c["type"] for c in after.source.get("columns", ())}
    return before.name == after.name and before.event_time == after.event_time and old.items() <= new.items()


def _not_allowed(steps: list[Step]) -> Iterator[Diagnostic]:
    for step in steps:
        if isinstance(step, RebuildQuery) and not step.allowed:
            yield Diagnostic(
                "rebuild-refused",
                f"`{step.query.name}` must be rebuilt: {step.reason}",
                hint=f"add `--allow-rebuild {step.query.name}`; rows it has written stay, and are written again",
                params={"name": step.query.name},
            )


def _unset(query: QuerySpec, environ: Environ) -> Iterator[Diagnostic]:
    needed = [
        *(name for parameter in _parameters(query) for name in _variables(parameter)),
        *(name for o in query.outputs for name, default, _ in references(o.sink) if not default),
        *(name for i in query.inputs for name, default, _ in references(i.source) if not default),
    ]
    for name in dict.fromkeys(needed):
        if not environ.get(name):
            text = f"`{query.name}` needs the environment variable `{name}`, which is not set"
            yield Diagnostic("unset-variable", text, hint="set it, or put it into `.env`", params={"name": name})


def _parameters(query: QuerySpec) -> Iterator[Parameter]:
    for step in query.steps:
        if isinstance(step, SqlStep):
            yield from step.parameters.values()


def _variables(parameter: Parameter) -> list[str]:
    if parameter.kind == "text":
        return [name for name, default, _ in references(parameter.of) if not default]
    return [parameter.of]


def _not_runnable(manifest: Manifest, chosen: list[QuerySpec], restricted: bool) -> Iterator[Diagnostic]:
    for query in chosen:
        if query.hindrances:
            text = f"`{query.name}` cannot run as a stream here: {', '.join(query.hindrances)}"
            hint = "`penstock validate` tells what to do about each; or choose others with --select"
            params = {"query": query.name, "subject": query.hindrances[0]}
            yield Diagnostic("sql-unsupported", text, hint=hint, params=params)
        if query.trigger == "realtime" and not query.hindrances:
            text = f"`{query.name}` asks for real-time mode, which has no batches, and all sinks here take batches"
            hint = "leave `trigger` out, or choose others with --select"
            yield Diagnostic("not-runnable-here", text, hint=hint, params={"query": query.name})
        for asked in query.asks:
            if asked.content is None:
                text = f"`{query.name}` asks `{asked.model}`, and its file `{asked.path}` is not there"
                hint = "put it there, change `runtime.ml`, or choose others with --select"
                yield Diagnostic(
                    "ml-model-missing", text, hint=hint, params={"query": query.name, "model": asked.model}
                )
    for connector in manifest.connectors if not restricted else ():
        text = f"`{connector.name}` needs Kafka Connect, which cannot be run from here"
        hint = f"`penstock compile` writes its configuration for {connector.connector_class}; or use --select"
        yield Diagnostic("not-runnable-here", text, hint=hint, params={"connector": connector.name})
    available = {*registry.types("source"), *registry.types("sink")}
    for query in chosen:
        types = {
            *(str(i.source["type"]) for i in query.inputs),
            *(str(o.sink["type"]) for o in query.outputs),
        }
        for missing in sorted(types - available):
            text = f"`{query.name}` needs the connector `{missing}`, which is not available"
            hint = (
                "remove `runtime.kafka` to run on embedded topics"
                if missing == "kafka"
                else "choose others with --select"
            )
            yield Diagnostic("not-runnable-here", text, hint=hint, params={"query": query.name, "connector": missing})
    if not manifest.spark.master.startswith("local"):
        text = f"embedded topics are directories of this machine, out of reach for `{manifest.spark.master}`"
        hint = "leave `runtime.spark.master` out to run here"
        yield Diagnostic("not-runnable-here", text, hint=hint, params={"master": manifest.spark.master})
