"""Checks a node of a pipeline by itself: its columns, its phases, and fields without effect."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.clients.rows.reserved_columns import invalid_names_error
from penstock.connectors.contract import Sink, Source
from penstock.connectors.hybrid import MISMATCH_HINT, HybridSource, describe_phase
from penstock.connectors.node import PipelineNode, inert_fields
from penstock.errors import Diagnostic, Severity, did_you_mean
from penstock.graph.external_schemas import phase_id
from penstock.graph.graph import Node
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.documents import PathStep
from penstock.row_columns import OP
from penstock.sql.types.coercion import mismatches
from penstock.sql.types.columns import Columns


def name_clashes(declared: Declaration[Source], node: Node) -> Iterator[Diagnostic]:
    """Report columns of files whose names clash. Other sources may read only the columns that are used."""
    names = [column.name for column in node.columns or ()]
    facts = declared.value.capabilities
    if facts.has_files and (wrong := invalid_names_error(names, f"`{node.name}`", facts.rename_hint)):
        yield declared.diagnostic(wrong.code, wrong.message, wrong.hint)


def ineffective_fields(declared: Declaration[PipelineNode]) -> Iterator[Diagnostic]:
    """Report fields without effect."""
    for field, why in inert_fields(type(declared.value)).items():
        if declared.has_field(field):
            yield _no_effect(declared, (field,), why)


def _no_effect(declared: Declaration[Any], at: tuple[PathStep, ...], why: str) -> Diagnostic:
    text, field = f"this has no effect: {why}", str(at[-1])
    return declared.diagnostic("no-effect", text, at=at, severity=Severity.INFO, field=field)


def missing_columns(declared: Declaration[Sink], node: Node) -> Iterator[Diagnostic]:
    """Report columns that a sink names and its known rows do not have."""
    present = [column.name for column in node.columns or () if column.name != OP]
    for path, name in declared.value.capabilities.named_columns.items():
        if node.columns is not None and name not in present:
            failed = f"update_where validation failed for sink '{node.name}': " * path.startswith("update_where.")
            text = f"{failed}there is no column `{name}`; available: {', '.join(present)}"
            hint, origin = did_you_mean(name, present), declared.origin_of(*path.split(".", 1))
            label, params = f"{declared.label}.{path}", {"column": name}
            yield Diagnostic("column-missing", text, origin, label, hint, params=params)


# Phases of hybrid sources


def phase_mismatches(
    declared: Declaration[Any], columns: Columns | None, schemas: Mapping[str, Columns]
) -> Iterator[Diagnostic]:
    """Report phases that do not match these columns of the source."""
    source = declared.value
    assert isinstance(source, HybridSource)
    yield from _ineffective_phase_fields(declared, source)
    name = declared.label.partition(".")[2]
    for at, phase in enumerate(source.bounded_sources):
        known = schemas.get(phase_id(name, at))
        if known is None or columns is None:
            continue
        for column, text in mismatches(known, columns, phase.source_type):
            full, steps = f"{text}: {describe_phase(at, phase.model_dump())}", ("bounded_sources", at)
            yield declared.diagnostic("phase-mismatch", full, MISMATCH_HINT, at=steps, column=column)


def _ineffective_phase_fields(declared: Declaration[Any], source: HybridSource) -> Iterator[Diagnostic]:
    bounded = ((("bounded_sources", at), phase) for at, phase in enumerate(source.bounded_sources))
    for steps, phase in (*bounded, (("unbounded_source",), source.unbounded_source)):
        for field, why in phase.inert.items():
            if field in phase.model_fields_set:
                yield _no_effect(declared, (*steps, field), why)
