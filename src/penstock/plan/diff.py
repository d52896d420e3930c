"""diff: Manifest and Deployed -> Plan. Pure: it looks at two values and nothing else."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Final

from penstock.connectors import registry
from penstock.errors import Diagnostic
from penstock.manifest.model import ConnectorSpec, Input, Manifest, Output, Parameter, QuerySpec
from penstock.manifest.model import Step as SqlStep
from penstock.plan.brokers import NO_BROKERS, Brokers
from penstock.plan.cores import missing_cores
from penstock.plan.gateways import NO_GATEWAY, Gateways, virtual_topic_refusals, virtual_topic_steps
from penstock.plan.offsets import reader_of, readers
from penstock.plan.reasons import differences
from penstock.plan.schemas import NO_SUBJECTS, Subjects, schema_refusals, schema_steps
from penstock.plan.state import Checkpoint, Deployed
from penstock.plan.steps import (
    Plan,
    RebuildQuery,
    RestartQuery,
    ResumeQuery,
    RetireQuery,
    StartQuery,
    Step,
)
from penstock.plan.topics import missing_topics, topic_steps
from penstock.plan.workers import NO_WORKERS, Workers, connector_refusals, connector_steps
from penstock.project.variables import Environ, references


def diff(
    manifest: Manifest,
    deployed: Deployed,
    *,
    select: Collection[str] = (),
    allow_rebuild: Collection[str] = (),
    environ: Environ | None = None,
    brokers: Brokers = NO_BROKERS,
    workers: Workers = NO_WORKERS,
    gateways: Gateways = NO_GATEWAY,
    subjects: Subjects = NO_SUBJECTS,
    cores: int | None = None,
) -> Plan:
    """The steps from what is deployed to what the manifest says. `select` restricts them to queries by name.

    With `environ`, queries that need a variable which is not in it are refused. `brokers` are what Kafka holds, and
    `workers`, `gateways` and `subjects` what Kafka Connect, the gateway and the schema registry do. With `cores`,
    queries that hold cores for as long as they run must get by with so many.
    """
    chosen = [q for q in manifest.queries if not select or q.name in select]
    steps: list[Step] = [] if select else [*schema_steps(manifest, subjects)]
    steps += [
        step
        for topic in manifest.topics
        if _wanted(topic.node, chosen, manifest, bool(select))
        for step in topic_steps(topic, deployed.topics, brokers.sink or {})
    ]
    deployed = replace(deployed, filled=deployed.filled | brokers.filled)
    steps += [_query_step(query, deployed, manifest, allow_rebuild) for query in chosen]
    if not select:
        present = {q.name for q in manifest.queries}
        steps += [RetireQuery(name) for name in deployed.queries if name not in present]
        steps += connector_steps(manifest, deployed.connectors, workers)
        steps += virtual_topic_steps(manifest, deployed.virtual_topics, gateways)
    own = [topic.name for topic in manifest.topics]
    missing = missing_topics(chosen, own, brokers.source)
    refusals = [*_not_runnable(manifest, chosen), *missing, *_not_allowed(steps)]
    if not select:
        refusals += [*schema_refusals(manifest, subjects), *connector_refusals(manifest, deployed.connectors, workers)]
        refusals += virtual_topic_refusals(manifest, gateways)
    if environ is not None:
        refusals += [refusal for query in chosen for refusal in _unset(query, environ)]
        refusals += [refusal for c in manifest.connectors if not select for refusal in _unset_in(c, environ)]
    if cores is not None:
        refusals += missing_cores(manifest, chosen, brokers, cores)
    return Plan(manifest, tuple(steps), tuple(refusals))


def _wanted(node_id: str, chosen: list[QuerySpec], manifest: Manifest, restricted: bool) -> bool:
    written = any(output.node == node_id for query in chosen for output in query.outputs)
    return written or (not restricted and manifest.producer(node_id) is None)


def _query_step(query: QuerySpec, deployed: Deployed, manifest: Manifest, allow_rebuild: Collection[str]) -> Step:
    before = deployed.queries.get(query.name)
    checkpoint = deployed.checkpoints.get(query.name)
    reason = _reason_to_rebuild(query, before, checkpoint, deployed, manifest)
    asked, known = query.name in allow_rebuild, deployed.offsets | deployed.grouped
    if reason or (asked and (checkpoint or not known.isdisjoint(readers(query)))):
        return RebuildQuery(query, reason or "you asked for it", asked)
    if checkpoint is None and _has_offsets(query, deployed):
        return RestartQuery(query, _OFFSETS if deployed.offsets.issuperset(readers(query)) else _GROUPED)
    if before is None:
        begun = checkpoint is not None and checkpoint.begun
        return RestartQuery(query, _NO_RECORD) if begun else StartQuery(query)
    if before.fingerprint == query.fingerprint:
        return ResumeQuery(query)
    reasons = [reason for reason, _ in differences(before, query)]
    return RestartQuery(query, "; ".join(reasons) or "what becomes of rows that it cannot use changed")


_OFFSETS: Final = "it has no checkpoint, and goes on by the offsets that were kept"
_GROUPED: Final = "it has no checkpoint, and goes on by the offsets of its group of consumers"
_NO_RECORD: Final = "its checkpoint is there, but no record of what it ran"


def _reason_to_rebuild(
    query: QuerySpec,
    before: QuerySpec | None,
    checkpoint: Checkpoint | None,
    deployed: Deployed,
    manifest: Manifest,
) -> str | None:
    """Why going on would lose rows, double them, or not be possible; None if nothing of that kind is so."""
    if moved := _moved_output(query, before, deployed):
        return moved
    if checkpoint is None and _has_offsets(query, deployed):
        return None
    if checkpoint is None and before is not None:
        return "its checkpoint is gone"
    if checkpoint is None:
        earlier = _same_target(query, deployed, manifest)
        filled = any(o.sink.get("topic") in deployed.filled for o in query.outputs)
        return f"`{earlier}` wrote to the same place before" if earlier else (_FILLED if filled else None)
    if deployed.moved_from and checkpoint.begun:
        return f"the project was moved here from {deployed.moved_from}, and its checkpoint knows files by full path"
    if before is None:
        return _NO_RECORD if query.stateful and checkpoint.begun else None
    breaking = [reason for reason, breaks in differences(before, query) if breaks]
    gone = {i.name for i in before.inputs} - {i.name for i in query.inputs}
    if gone and checkpoint.unfinished:
        breaking.append("its last batch is unfinished, and an input of that batch is gone")
    return "; ".join(breaking) or None


_FILLED: Final = "its topic already holds rows of an earlier run"


def _has_offsets(query: QuerySpec, deployed: Deployed) -> bool:
    """Whether everything that the query must know to go on is how far it has read topics, and that is known."""
    streams = [entry for entry in query.inputs if not entry.static]
    only_topics = all(entry.topic is not None and _phases_done(query, entry, deployed) for entry in streams)
    known = deployed.offsets | deployed.grouped
    return only_topics and not query.stateful and known.issuperset(readers(query))


def _phases_done(query: QuerySpec, entry: Input, deployed: Deployed) -> bool:
    """Whether an input has nothing left to read before its topic, and what it had to read is still the same."""
    if entry.backfill is None:
        return True
    before = deployed.queries.get(query.name)
    known = {i.name: i.backfill.phases for i in before.inputs if i.backfill} if before else {}
    done = deployed.phases.get(reader_of(query, entry), frozenset())
    phases = entry.backfill.phases
    reached = (reader_of(query, entry), entry.topic) in deployed.offsets
    return reached and known.get(entry.name, phases) == phases and all(phase.name in done for phase in phases)


def _moved_output(query: QuerySpec, before: QuerySpec | None, deployed: Deployed) -> str | None:
    """Whether another query wrote one of its sinks before: it was somewhere else in its input."""
    own = {output.node for output in before.outputs} if before is not None else set[str]()
    others = [q for name, q in deployed.queries.items() if name != query.name and name in deployed.checkpoints]
    found = ((q.name, o.node) for q in others for o in q.outputs if o.node in {x.node for x in query.outputs} - own)
    return next((f"`{name}` wrote `{node.partition('.')[2]}` before" for name, node in found), None)


def _same_target(query: QuerySpec, deployed: Deployed, manifest: Manifest) -> str | None:
    """A query that is gone under its name, but wrote where this one is to write: rows would come twice."""
    present = {q.name for q in manifest.queries}
    targets = [_target(output) for output in query.outputs]
    gone = (q for name, q in deployed.queries.items() if name not in present and name in deployed.checkpoints)
    return next((q.name for q in gone if any(_target(output) in targets for output in q.outputs)), None)


def _target(output: Output) -> dict[str, Any]:
    return {
        key: value for key, value in output.sink.items() if key not in ("from", "primary_key", "deduplicate", "isolate")
    }


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
        *(
            name
            for i in query.inputs
            for name, default, _ in references([*i.sources, *_offset_table(i)])
            if not default
        ),
    ]
    yield from _missing(query.name, needed, environ)


def _offset_table(entry: Input) -> list[dict[str, Any]]:
    said = entry.backfill.offset_table if entry.backfill is not None else None
    return [said] if said is not None else []


def _unset_in(connector: ConnectorSpec, environ: Environ) -> Iterator[Diagnostic]:
    needed = [name for name, default, _ in references(connector.config) if not default]
    yield from _missing(connector.name, needed, environ)


def _missing(of: str, needed: Collection[str], environ: Environ) -> Iterator[Diagnostic]:
    for name in dict.fromkeys(needed):
        if not environ.get(name):
            text = f"`{of}` needs the environment variable `{name}`, which is not set"
            yield Diagnostic("unset-variable", text, hint="set it, or put it into `.env`", params={"name": name})


def _parameters(query: QuerySpec) -> Iterator[Parameter]:
    for step in query.steps:
        if isinstance(step, SqlStep):
            yield from step.parameters.values()


def _variables(parameter: Parameter) -> list[str]:
    if parameter.kind == "text":
        return [name for name, default, _ in references(parameter.of) if not default]
    return [parameter.of]


def _not_runnable(manifest: Manifest, chosen: list[QuerySpec]) -> Iterator[Diagnostic]:
    for query in chosen:
        if query.hindrances:
            text = f"`{query.name}` cannot run as a stream here: {', '.join(query.hindrances)}"
            hint = "`penstock validate` tells what to do about each; or choose others with --select"
            params = {"query": query.name, "subject": query.hindrances[0]}
            yield Diagnostic("sql-unsupported", text, hint=hint, params=params)
        for asked in query.asks:
            if asked.content is None:
                text = f"`{query.name}` asks `{asked.model}`, and its file `{asked.path}` is not there"
                hint = "put it there, change `runtime.ml`, or choose others with --select"
                yield Diagnostic(
                    "ml-model-missing", text, hint=hint, params={"query": query.name, "model": asked.model}
                )
    available = {*registry.types("source"), *registry.types("sink")}
    for query in chosen:
        types = {
            *(str(source["type"]) for i in query.inputs for source in i.sources),
            *(str(o.sink["type"]) for o in query.outputs),
        }
        for missing in sorted(types - available):
            text = f"`{query.name}` needs the connector `{missing}`, which is not available"
            hint = "choose others with --select"
            yield Diagnostic("not-runnable-here", text, hint=hint, params={"query": query.name, "connector": missing})
    if not manifest.spark.master.startswith("local"):
        yield from _out_of_reach(manifest.spark.master, chosen)


def _out_of_reach(master: str, chosen: list[QuerySpec]) -> Iterator[Diagnostic]:
    """Queries of a cluster that read or write what only this machine has."""
    for query in chosen:
        read = [source for entry in query.inputs for source in entry.sources]
        sources = [(registry.find_source(str(source["type"])), source) for source in read]
        sinks = [(registry.find_sink(str(output.sink["type"])), output.sink) for output in query.outputs]
        if any(found is not None and found.stays_here(config) for found, config in (*sources, *sinks)):
            text = f"`{query.name}` reads or writes directories of this machine, out of reach for `{master}`"
            hint = "leave `runtime.spark.master` out to run here, or set `runtime.kafka`"
            yield Diagnostic("not-runnable-here", text, hint=hint, params={"query": query.name, "master": master})
