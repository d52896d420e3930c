"""Renamed models: how they are recognised, and how they keep their state. Nothing on disk is moved, because checkpoints
contain full file paths. The store records whose checkpoint a query uses, and the name of the node in its readers'
checkpoints."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import Diagnostic, Severity
from penstock.manifest.model import Input, Manifest, QuerySpec
from penstock.manifest.queries.assembly import stream_name
from penstock.plan.changes.locations import is_moved, location
from penstock.plan.deployed.place import ProjectPlace
from penstock.plan.deployed.state import DeployedState
from penstock.plan.deployed.stores import StateStore

_CARRIED = "carried:"


@dataclass(frozen=True, slots=True)
class Rename:
    """A model that was called `old`. `moved` are the old and new location of its output, if they differ."""

    old: str
    new: str
    moved: tuple[str, str] | None = None
    with_renames: tuple[tuple[str, str], ...] = ()
    """The old and new names of its renamed inputs, which must be carried with it."""


def find_renames(manifest: Manifest, deployed: DeployedState) -> Iterator[Rename]:
    """Find new queries with the SQL, inputs and key of a removed one. Their inputs may be renamed too."""
    if manifest.project.format == "pipeline":
        return  # its queries are called by their sources and sinks, which checkpoints know
    present = {query.name for query in manifest.queries}
    gone = [query for name, query in deployed.queries.items() if name not in present and name in deployed.checkpoints]
    earlier: dict[str, Rename] = {}
    for query in manifest.queries:
        if query.name not in deployed.queries and query.name not in deployed.checkpoints:
            read = [earlier[e.node] for e in query.inputs if e.node in earlier and earlier[e.node].moved is None]
            found = next((old for old in gone if _is_same(_with_names(old, read), query, read)), None)
            if found is not None:
                before, after = found.outputs[0].sink, query.outputs[0].sink
                places = location("sink", before), location("sink", after)
                moved = places if is_moved("sink", before, after) else None
                rename = Rename(found.name, query.name, moved, tuple((r.old, r.new) for r in read))
                earlier[f"model.{query.name}"] = rename
                yield rename


def _with_names(query: QuerySpec, renames: Collection[Rename]) -> QuerySpec:
    for rename in renames:
        query = rename_node(query, rename.old, rename.new)
    return query


def _is_same(old: QuerySpec, new: QuerySpec, read: Collection[Rename]) -> bool:
    """Whether two queries are equal except for the name, the output location and the names of renamed inputs."""
    if len(old.outputs) != 1 or len(new.outputs) != 1:
        return False
    found = rename_node(old, old.name, new.name)
    keys = [query.outputs[0].sink.get("primary_key") for query in (found, new)]
    nodes = {f"model.{rename.new}" for rename in read}
    inputs = [[_without_name(entry, nodes) for entry in query.inputs] for query in (found, new)]
    return (inputs[0], found.steps, keys[0]) == (inputs[1], new.steps, keys[1])


def _without_name(entry: Input, nodes: Collection[str]) -> Input:
    return entry.model_copy(update={"name": ""}) if entry.node in nodes else entry


def describe_renames(renames: Collection[Rename]) -> Iterator[Diagnostic]:
    """Report models that look renamed."""
    for rename in renames:
        text = f"`{rename.new}` has the SQL, the inputs and the key of `{rename.old}`, which is gone"
        hint = f"{_option(rename)} resumes from its checkpoint"
        if rename.moved is not None:
            hint = f"with `advanced: {{topic: {rename.moved[0]}}}` on `{rename.new}`, {hint}; otherwise it starts over"
        params = {"old": rename.old, "new": rename.new}
        yield Diagnostic("model-renamed", text, hint=hint, severity=Severity.INFO, params=params)


def carry_hint(query: QuerySpec, renames: Collection[Rename]) -> str | None:
    """The hint to keep the state of a renamed query, or of one that reads renamed models."""
    own = [rename for rename in renames if rename.new == query.name]
    nodes = {entry.node for entry in query.inputs}
    found = own or [rename for rename in renames if f"model.{rename.new}" in nodes]
    if not found or any(rename.moved is not None for rename in found):
        return None
    options = dict.fromkeys(_option(rename) for rename in found)
    return f"add {' '.join(options)} to resume from {'its' if own else 'the same'} checkpoint"


def _option(rename: Rename) -> str:
    pairs = (*rename.with_renames, (rename.old, rename.new))
    return f"`{' '.join(f'--carry {old}={new}' for old, new in pairs)}`"


def carry_refusals(
    asked: Collection[tuple[str, str]], renames: Collection[Rename], deployed: DeployedState
) -> Iterator[Diagnostic]:
    """Why the state of a query cannot be carried to another name."""
    known = {(rename.old, rename.new): rename for rename in renames}
    for old, new in asked:
        rename, begun = known.get((old, new)), deployed.checkpoints.get(old)
        if rename is None:
            why, hint = f"`{new}` is not `{old}` under another name: SQL, inputs and key must be the same", None
        elif rename.moved is not None:
            why = f"`{old}` wrote `{rename.moved[0]}`, and `{new}` writes `{rename.moved[1]}`"
            hint = f"keep the topic with `advanced: {{topic: {rename.moved[0]}}}`, or leave --carry out"
        elif missing := [pair for pair in rename.with_renames if pair not in asked]:
            why = f"`{new}` reads `{missing[0][1]}`, which was called `{missing[0][0]}`"
            hint = f"add {_option(rename)}"
        elif begun is not None and begun.unfinished:
            why, hint = f"the last batch of `{old}` is unfinished", f"run it once more as `{old}`"
        else:
            continue
        yield Diagnostic("carry-refused", why, hint=hint, params={"old": old, "new": new})


def carry_state(deployed: DeployedState, renames: Collection[Rename]) -> DeployedState:
    """The deployed state with the new names of models."""
    for rename in renames:
        queries = {q.name: q for q in (rename_node(q, rename.old, rename.new) for q in deployed.queries.values())}
        checkpoints = {rename.new if name == rename.old else name: c for name, c in deployed.checkpoints.items()}
        damaged = {rename.new if name == rename.old else name: d for name, d in deployed.damaged.items()}
        deployed = replace(deployed, queries=queries, checkpoints=checkpoints, damaged=damaged)
    return deployed


def rename_node(query: QuerySpec, old: str, new: str) -> QuerySpec:
    """Rename a model in a query. The reader names of its checkpoint stay."""
    text = json.dumps(query.to_document())
    node = re.compile(rf"(?<![\w.]){re.escape(f'model.{old}')}(?![\w.\-])")
    found = QuerySpec.model_validate_json(node.sub(f"model.{new}", text).replace(f"`{old}`", f"`{new}`"))
    return found.model_copy(update={"name": new}) if query.name == old else found


def with_carried_names(manifest: Manifest, carried: Mapping[str, str]) -> Manifest:
    """The manifest, in which readers of renamed models have the names in their checkpoints."""
    nodes = {f"model.{new}": f"model.{old}" for new, old in carried.items()}
    if not nodes:
        return manifest
    queries = tuple(
        query.model_copy(update={"inputs": tuple(_keep_reader_name(entry, nodes) for entry in query.inputs)})
        for query in manifest.queries
    )
    return manifest.model_copy(update={"queries": queries})


def _keep_reader_name(entry: Input, nodes: Mapping[str, str]) -> Input:
    if entry.node not in nodes:
        return entry
    return entry.model_copy(update={"name": stream_name(entry.view.replace(entry.node, nodes[entry.node], 1))})


def read_carried_names(store: StateStore, place: ProjectPlace) -> dict[str, str]:
    """The original names of renamed queries, by current name."""
    found = store.get(place.namespace, _CARRIED).items()
    return {key.removeprefix(_CARRIED): str(document["from"]) for key, document in found}


def read_former_names(store: StateStore, place: ProjectPlace) -> dict[str, str]:
    """The current names of models, by each former name."""
    found = store.get(place.namespace, _CARRIED).items()
    return {old: key.removeprefix(_CARRIED) for key, document in found for old in _former(document)}


def _former(document: Mapping[str, Any]) -> list[str]:
    return [str(name) for name in document.get("names", [document["from"]])]


def record_rename(store: StateStore, place: ProjectPlace, rename: Rename) -> None:
    """Record whose checkpoint a query uses, and rename it in all recorded queries."""
    carried = read_carried_names(store, place)
    documents = store.get(place.namespace, "query:").values()
    queries = [rename_node(QuerySpec.model_validate(document), rename.old, rename.new) for document in documents]
    former = [old for old, name in read_former_names(store, place).items() if name == rename.old]
    names = [name for name in dict.fromkeys((*former, rename.old)) if name != rename.new]
    first = {_CARRIED + rename.new: {"from": carried.get(rename.old, rename.old), "names": names}}
    store.put(place.namespace, {**first, **{f"query:{query.name}": query.to_document() for query in queries}})
    store.remove(place.namespace, [f"{key}:{rename.old}" for key in ("query", "progress", "places", "carried")])
