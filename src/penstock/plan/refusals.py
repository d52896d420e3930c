"""Reasons to refuse a plan: missing consent, unset variables, unreachable systems."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from penstock.connectors import registry
from penstock.errors import Diagnostic
from penstock.manifest.model import Manifest, Parameter, QuerySpec
from penstock.manifest.model import Step as SqlStep
from penstock.manifest.resources import ConnectorSpec
from penstock.plan.changes.reasons import rebuild_hint
from penstock.plan.changes.renames import Rename, carry_hint
from penstock.plan.steps import AdoptState, RebuildQuery, Step
from penstock.project.yaml.variables import Environ, find_references, unset_hint


def unallowed_rebuilds(steps: Iterable[Step], renames: Collection[Rename] = ()) -> Iterator[Diagnostic]:
    """Refuse rebuilds without consent. For a model that looks renamed, the hint first names the way to keep its
    state."""
    for step in steps:
        if isinstance(step, RebuildQuery) and not step.allowed:
            text = f"`{step.query.name}` must be rebuilt: {step.reason}"
            hint = "; or ".join(filter(None, (carry_hint(step.query, renames), rebuild_hint(step.query.name))))
            yield Diagnostic("rebuild-refused", text, hint=hint, params={"name": step.query.name})


def unadopted_state(adopt: AdoptState | None) -> Iterator[Diagnostic]:
    """Ask for consent before an environment adopts foreign state."""
    if adopt is not None and not adopt.allowed:
        name, queries = adopt.adoption.environment, adopt.adoption.queries
        text = f"`{name}` has no state yet, and the project ran without an environment before ({queries} queries)"
        hint = "add `--adopt-state` to resume from that state; `--allow-rebuild all` starts over without it"
        yield Diagnostic("state-elsewhere", text, hint=hint, params={"environment": name})


def unset_in_query(query: QuerySpec, environ: Environ) -> Iterator[Diagnostic]:
    read = [(entry.sources, entry.backfill and entry.backfill.offset_table) for entry in query.inputs]
    needed = [
        *(name for parameter in _parameters(query) for name in _variables(parameter)),
        *_required([output.sink for output in query.outputs]),
        *_required(read),
    ]
    yield from _missing(query.name, needed, environ)


def unset_in_connector(connector: ConnectorSpec, environ: Environ) -> Iterator[Diagnostic]:
    yield from _missing(connector.name, _required(connector.config), environ)


def _required(value: Any) -> list[str]:
    """The variables without a default that a value refers to."""
    return [name for name, default, _ in find_references(value) if not default]


def _missing(of: str, needed: Collection[str], environ: Environ) -> Iterator[Diagnostic]:
    for name in dict.fromkeys(needed):
        if not environ.get(name):
            text = f"the environment variable `{name}` is not set; `{of}` needs it"
            yield Diagnostic("unset-variable", text, hint=unset_hint(name), params={"name": name})


def _parameters(query: QuerySpec) -> Iterator[Parameter]:
    for step in query.steps:
        if isinstance(step, SqlStep):
            yield from step.parameters.values()


def _variables(parameter: Parameter) -> list[str]:
    return _required(parameter.of) if parameter.kind == "text" else [parameter.of]


def unrunnable_queries(manifest: Manifest, chosen: list[QuerySpec]) -> Iterator[Diagnostic]:
    for query in chosen:
        if query.hindrances:
            text = f"`{query.name}` cannot run as a stream here: {', '.join(query.hindrances)}"
            hint = "`penstock validate` says what to do about each; or run other queries with --select"
            params = {"query": query.name, "subject": query.hindrances[0]}
            yield Diagnostic("sql-unsupported", text, hint=hint, params=params)
        for asked in query.asks:
            if asked.content is None:
                text = f"`{query.name}` calls `{asked.model}`, and its file `{asked.path}` does not exist"
                hint = "add the file, change `runtime.ml`, or run other queries with --select"
                params = {"query": query.name, "model": asked.model}
                yield Diagnostic("ml-model-missing", text, hint=hint, params=params)
    available = {*registry.types("source"), *registry.types("sink")}
    for query in chosen:
        types = {
            *(str(source["type"]) for i in query.inputs for source in i.sources),
            *(str(o.sink["type"]) for o in query.outputs),
        }
        for missing in sorted(types - available):
            text = f"`{query.name}` needs the connector `{missing}`, which is not available"
            hint = "run other queries with --select"
            yield Diagnostic("not-runnable-here", text, hint=hint, params={"query": query.name, "connector": missing})
    if not manifest.spark.master.startswith("local"):
        yield from _out_of_reach(manifest.spark.master, chosen)


def _out_of_reach(master: str, chosen: list[QuerySpec]) -> Iterator[Diagnostic]:
    """Refuse queries on a cluster that read or write directories of this machine."""
    for query in chosen:
        read = [source for entry in query.inputs for source in entry.sources]
        sources = [(registry.find_source(str(source["type"])), source) for source in read]
        sinks = [(registry.find_sink(str(output.sink["type"])), output.sink) for output in query.outputs]
        if any(found is not None and found.is_machine_local(config) for found, config in (*sources, *sinks)):
            text = f"`{query.name}` reads or writes directories of this machine, which `{master}` cannot reach"
            hint = "leave `runtime.spark.master` out to run here, or set `runtime.kafka`"
            yield Diagnostic("not-runnable-here", text, hint=hint, params={"query": query.name, "master": master})
