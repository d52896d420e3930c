"""Decides the step of one query: start, resume, restart, rebuild or hold."""

from collections.abc import Collection
from typing import Any, Final

from penstock.manifest.model import Input, Manifest, QueryOutput, QuerySpec
from penstock.plan.changes.locations import changed_locations, is_moved, location, resolve_locations
from penstock.plan.changes.reasons import differences
from penstock.plan.changes.state_fit import input_changes
from penstock.plan.deployed.offsets import reader_of, readers
from penstock.plan.deployed.state import Checkpoint, DeployedState
from penstock.plan.steps import HoldQuery, QueryStep, RebuildQuery, RestartQuery, ResumeQuery, StartQuery
from penstock.project.yaml.variables import Environ

ALL: Final = "all"
"""Allows every needed rebuild, in place of query names. It requests no other rebuild."""


def query_step(
    query: QuerySpec, deployed: DeployedState, manifest: Manifest, allow_rebuild: Collection[str], environ: Environ
) -> QueryStep:
    before = deployed.queries.get(query.name)
    checkpoint = deployed.checkpoints.get(query.name)
    reason = _reason_to_rebuild(query, before, checkpoint, deployed, manifest, environ)
    asked, known = query.name in allow_rebuild, deployed.offsets | deployed.grouped
    if reason or (asked and (checkpoint or not known.isdisjoint(readers(query)))):
        allowed = asked or ALL in allow_rebuild
        return RebuildQuery(query, reason or "you asked for it", allowed, left=_abandoned_outputs(query, before))
    if (damage := deployed.damaged.get(query.name)) is not None:
        return HoldQuery(query, damage)
    if checkpoint is None and _has_offsets(query, deployed):
        return RestartQuery(query, _OFFSETS if deployed.offsets.issuperset(readers(query)) else _GROUPED)
    if before is None:
        begun = checkpoint is not None and checkpoint.begun
        return RestartQuery(query, _NO_RECORD) if begun else StartQuery(query)
    changed = input_changes(query, manifest, deployed)
    if before.fingerprint == query.fingerprint and not changed:
        return ResumeQuery(query)
    reasons = [reason for reason, _ in (*differences(before, query), *changed)]
    return RestartQuery(query, "; ".join(reasons) or "what happens to rows that it rejects changed")


def _abandoned_outputs(query: QuerySpec, before: QuerySpec | None) -> tuple[str, ...]:
    """The former output locations of a query, if it writes to none of them any more."""
    known = {output.node: output.sink for output in before.outputs} if before is not None else {}
    pairs = [(known[output.node], output.sink) for output in query.outputs if output.node in known]
    moved = [location("sink", old) for old, new in pairs if is_moved("sink", old, new)]
    return tuple(moved) if len(moved) == len(query.outputs) else ()


_OFFSETS: Final = "it has no checkpoint, and resumes from the stored offsets"
_GROUPED: Final = "it has no checkpoint, and resumes from the offsets of its consumer group"
_NO_RECORD: Final = "its checkpoint exists, but there is no record of what it ran"


def _reason_to_rebuild(
    query: QuerySpec,
    before: QuerySpec | None,
    checkpoint: Checkpoint | None,
    deployed: DeployedState,
    manifest: Manifest,
    environ: Environ,
) -> str | None:
    """Why resuming would lose or duplicate rows, or is not possible; None if it is safe."""
    if moved := _moved_output(query, before, deployed):
        return moved
    if checkpoint is None and _has_offsets(query, deployed):
        return None
    if checkpoint is None and before is not None:
        return "its checkpoint is missing"
    if checkpoint is None:
        earlier = _same_target(query, deployed, manifest)
        filled = any(deployed.holds_rows(output.sink) for output in query.outputs)
        return f"`{earlier}` wrote to the same place before" if earlier else (_FILLED if filled else None)
    if deployed.moved_from and checkpoint.begun:
        return f"the project was moved here from {deployed.moved_from}, and its checkpoint knows files by full path"
    if before is None:
        return _NO_RECORD if query.stateful and checkpoint.begun else None
    found = (*differences(before, query), *input_changes(query, manifest, deployed))
    breaking = [reason for reason, breaks in found if breaks]
    places = deployed.places.get(query.name, {})
    if checkpoint.begun and (other := changed_locations(places, resolve_locations(query, environ))):
        breaking.append(other)
    gone = {i.name for i in before.inputs} - {i.name for i in query.inputs}
    if gone and checkpoint.unfinished:
        breaking.append("its last batch is unfinished, and an input of that batch is missing")
    return "; ".join(breaking) or None


_FILLED: Final = "its topic already holds rows of an earlier run"


def _has_offsets(query: QuerySpec, deployed: DeployedState) -> bool:
    """Whether the query can resume from offsets alone, and they are known."""
    topics = (e.topic is not None and _has_finished_phases(query, e, deployed) for e in query.streams)
    known = deployed.offsets | deployed.grouped
    return all(topics) and not query.stateful and known.issuperset(readers(query))


def _has_finished_phases(query: QuerySpec, entry: Input, deployed: DeployedState) -> bool:
    """Whether all phases of an input are finished and unchanged."""
    if entry.backfill is None:
        return True
    before = deployed.queries.get(query.name)
    known = {i.name: i.backfill.phases for i in before.inputs if i.backfill} if before else {}
    done = deployed.phases.get(reader_of(query, entry), frozenset())
    phases = entry.backfill.phases
    reached = (reader_of(query, entry), entry.topic) in deployed.offsets
    return reached and known.get(entry.name, phases) == phases and all(phase.name in done for phase in phases)


def _moved_output(query: QuerySpec, before: QuerySpec | None, deployed: DeployedState) -> str | None:
    """Whether another query wrote one of its sinks before, from another input position."""
    own = {output.node for output in before.outputs} if before is not None else set[str]()
    others = [q for name, q in deployed.queries.items() if name != query.name and name in deployed.checkpoints]
    found = ((q.name, o.node) for q in others for o in q.outputs if o.node in {x.node for x in query.outputs} - own)
    return next((f"`{name}` wrote `{node.partition('.')[2]}` before" for name, node in found), None)


def _same_target(query: QuerySpec, deployed: DeployedState, manifest: Manifest) -> str | None:
    """A removed query that wrote to the same target: rows would be duplicated."""
    present = {q.name for q in manifest.queries}
    targets = [_target(output) for output in query.outputs]
    gone = (q for name, q in deployed.queries.items() if name not in present and name in deployed.checkpoints)
    return next((q.name for q in gone if any(_target(output) in targets for output in q.outputs)), None)


def _target(output: QueryOutput) -> dict[str, Any]:
    no_target = ("from", "primary_key", "deduplicate", "isolate")
    return {key: value for key, value in output.sink.items() if key not in no_target}
