"""Checks that state still fits the columns and types of a query's inputs: a model upstream may have changed while the
query's own SQL did not."""

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.manifest.model import Input, Manifest, QuerySpec
from penstock.manifest.queries.input_columns import declared_columns, only_operators_keep_rows, used_input_columns
from penstock.plan.deployed.state import DeployedState
from penstock.plan.deployed.state_origin import InputColumns, StateOrigin
from penstock.sql.types.int256 import parse_int256_type, struct_field

_NUMBERS: Final = frozenset({"INT", "BIGINT", "FLOAT", "DOUBLE"})
"""Avro numbers that a later schema version may widen."""


def input_changes(query: QuerySpec, manifest: Manifest, deployed: DeployedState) -> list[tuple[str, bool]]:
    """The differences of a query's input columns since its state began, and whether they break the state. For inputs
    that are computed as before, only certain types count: another release of Penstock may infer types better."""
    checkpoint = deployed.checkpoints.get(query.name)
    if not query.stateful or checkpoint is None or checkpoint.origin is None or not checkpoint.begun:
        return []
    changed = {entry.view for entry in query.inputs if _is_made_otherwise(entry, query, manifest, deployed)}
    declared, origin = declared_columns(manifest, query), checkpoint.origin
    models = frozenset(entry.view for entry in query.inputs if manifest.producer(entry.node) is not None)
    after = {
        entry.view: columns if entry.view in changed else _read_otherwise(entry, origin, columns)
        for entry in query.inputs
        if (columns := declared.get(entry.view)) is not None
    }
    return list(_column_changes(query, origin.declared, after, models))


def _read_otherwise(entry: Input, origin: StateOrigin, columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of an input with the types in state, except those that certainly have another type now: by another
    schema version, or long decimals that were text before."""
    before = origin.declared.get(entry.view, {})
    is_avro = entry.source["type"] == "kafka" and entry.source.get("data_format", "avro") == "avro"
    types = {
        name: kind
        for name, kind in columns.items()
        if (old := before.get(name)) is not None
        and old != kind
        and (_is_widened(name, old, kind, origin.found) or (is_avro and {old, kind} <= _NUMBERS))
    }
    return {**before, **types}


def _is_widened(name: str, old: str, new: str, found: InputColumns) -> bool:
    """Whether a number has more digits than Spark supports, and had another type in state."""
    kind = parse_int256_type(new)
    if kind is None or parse_int256_type(old) is not None:
        return False
    leaf = f"{name}.{struct_field(kind)}".lower()
    return not any(f".{path.lower()}".endswith(f".{leaf}") for columns in found.values() for path in columns)


def _column_changes(
    query: QuerySpec, before: InputColumns, after: InputColumns, models: frozenset[str]
) -> Iterator[tuple[str, bool]]:
    """The differences of input columns, and whether state of the old ones does not fit. Rows that `models` wrote before
    have the old types too. Columns may be added and removed where Penstock operators keep whole rows: they are null in
    older rows."""
    used, has_room = used_input_columns(query), only_operators_keep_rows(query)
    for entry in query.inputs:
        if entry.static or entry.view not in before or entry.view not in after:
            continue
        name = entry.node.partition(".")[2]
        old, new = (_fold_names(columns[entry.view]) for columns in (before, after))
        for column, (spelled, kind) in new.items():
            if column in old and old[column][1] != kind and not _is_nested(kind):
                said = f"`{spelled}` of `{name}` was {old[column][1]} and is {kind}, and its state has the old type"
                older = f", as have rows that `{name}` wrote (`--allow-rebuild {name} --truncate` writes them anew)"
                yield said + (older if entry.view in models else ""), True
        if used.get(entry.view) is not None:
            continue  # it names its columns, so that others do not concern it
        behind = "" if has_room else ", and its state has all columns"
        came, gone = [new[c][0] for c in new if c not in old], [old[c][0] for c in old if c not in new]
        if came:
            yield f"{_quote_names(came)} of `{name}` {_be_verb(came)} new{behind}", not has_room
        if gone:
            yield f"{_quote_names(gone)} of `{name}` {_be_verb(gone)} gone{behind}", not has_room


def _is_made_otherwise(entry: Input, query: QuerySpec, manifest: Manifest, deployed: DeployedState) -> bool:
    """Whether the SQL or declaration of an input changed since the query last ran."""
    producer = manifest.producer(entry.node)
    if producer is not None:
        known = deployed.queries.get(producer.name)
        other = known is None or known.fingerprint != producer.fingerprint
        return other or any(_is_made_otherwise(i, producer, manifest, deployed) for i in producer.inputs)
    before = deployed.queries.get(query.name)
    old = next((i for i in before.inputs if i.name == entry.name), None) if before is not None else None
    return old is not None and old.source.get("columns") != entry.source.get("columns")


def _is_nested(kind: str) -> bool:
    """Whether a type has fields or elements. A query may use some of them, so it is compared at the start."""
    return kind.upper().startswith(("STRUCT", "ARRAY", "MAP"))


def _fold_names(columns: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {name.lower(): (name, kind) for name, kind in columns.items()}


def _quote_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _be_verb(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"
