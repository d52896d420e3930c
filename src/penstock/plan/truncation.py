"""Rebuilds with `--truncate`: outputs are emptied first, and their readers are rebuilt too."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.connectors import registry
from penstock.errors import Diagnostic
from penstock.manifest.model import Manifest, QueryOutput, QuerySpec
from penstock.plan.changes.locations import location
from penstock.plan.deployed.state import DeployedState
from penstock.plan.steps import EmptyOutput, QueryStep, RebuildQuery, StartQuery


@dataclass(frozen=True, slots=True)
class Truncation:
    """The steps of queries, the outputs to empty first, and the refusals."""

    queries: tuple[QueryStep, ...]
    outputs: tuple[EmptyOutput, ...] = ()
    refusals: tuple[Diagnostic, ...] = ()


def truncation(steps: Sequence[QueryStep], manifest: Manifest, deployed: DeployedState) -> Truncation:
    """Empty the outputs of the rebuilds among these steps, which are in upstream order."""
    rebuilt: dict[str, RebuildQuery] = {}
    found: list[QueryStep] = []
    for step in steps:
        upstream = _emptied_upstream(step.query, rebuilt, manifest)
        if upstream and not isinstance(step, StartQuery | RebuildQuery):
            step = RebuildQuery(step.query, f"`{upstream}`, which it reads, is truncated", allowed=True)
        if isinstance(step, RebuildQuery) and (step.allowed or upstream):
            whole = all(_empty_step(output, manifest) for output in step.query.outputs)
            step = replace(step, allowed=True, truncates=whole)
            rebuilt[step.query.name] = step
        found.append(step)
    outputs = [_empty_step(output, manifest) for step in rebuilt.values() for output in step.query.outputs]
    emptied = tuple(filter(None, outputs))
    refusals = (*_unselected_readers(rebuilt, steps, manifest, deployed), *_shared_outputs(emptied, rebuilt, manifest))
    return Truncation(tuple(found), emptied, refusals)


def _emptied_upstream(query: QuerySpec, rebuilt: Collection[str], manifest: Manifest) -> str | None:
    """An input of a query that is truncated and written again."""
    for entry in query.inputs:
        writer = manifest.producer(entry.node)
        if writer is not None and writer.name in rebuilt:
            return entry.node.partition(".")[2]
    return None


def _empty_step(output: QueryOutput, manifest: Manifest) -> EmptyOutput | None:
    """The step that empties an output; None if it cannot be emptied, or the project does not own it."""
    kind, topic = registry.find_sink(str(output.sink["type"])), output.sink.get("topic")
    theirs = any(spec.name == topic and spec.only_made for spec in manifest.topics)
    how = None if kind is None or theirs else kind.describe_emptying(output.sink)
    return None if how is None else EmptyOutput(output, location("sink", output.sink), how)


def _unselected_readers(
    rebuilt: Collection[str], steps: Sequence[QueryStep], manifest: Manifest, deployed: DeployedState
) -> Iterator[Diagnostic]:
    """Refuse to truncate an output whose reader is not in this plan: it would read rows twice."""
    chosen = {step.query.name for step in steps}
    for query in manifest.queries:
        upstream = _emptied_upstream(query, rebuilt, manifest)
        if upstream and query.name not in chosen and query.name in deployed.checkpoints:
            text = (
                f"`{query.name}` reads `{upstream}`, which is truncated, but is not selected: it would read rows twice"
            )
            hint = f"add `--select {query.name}`, or leave --truncate out"
            yield Diagnostic("rebuild-refused", text, hint=hint, params={"name": query.name})


def _shared_outputs(
    emptied: Sequence[EmptyOutput], rebuilt: Collection[str], manifest: Manifest
) -> Iterator[Diagnostic]:
    """Refuse to truncate an output that another query also writes: its rows would be lost."""
    places = {(step.output.sink["type"], step.location) for step in emptied}
    for query in (query for query in manifest.queries if query.name not in rebuilt):
        for output in query.outputs:
            place = output.sink["type"], location("sink", output.sink)
            if place in places:
                text = f"`{place[1]}` would be truncated, but `{query.name}` also writes it"
                hint = f"add `--allow-rebuild {query.name}`, or leave --truncate out"
                yield Diagnostic("rebuild-refused", text, hint=hint, params={"name": query.name})
