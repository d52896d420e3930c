"""Checks the phases of a hybrid source: columns that do not match, and fields without effect."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.connectors.hybrid import MISMATCH_HINT, HybridSource, describe_phase
from penstock.errors import Diagnostic, Severity
from penstock.graph.external_schemas import phase_id
from penstock.project.validation.declaration import Declaration
from penstock.sql.types.coercion import mismatches
from penstock.sql.types.columns import Columns


def phase_mismatches(
    declared: Declaration[Any], columns: Columns | None, schemas: Mapping[str, Columns]
) -> Iterator[Diagnostic]:
    """Report phases that do not match these columns of the source."""
    source = declared.value
    assert isinstance(source, HybridSource)
    yield from _ineffective_fields(declared, source)
    name = declared.label.partition(".")[2]
    for at, phase in enumerate(source.bounded_sources):
        known = schemas.get(phase_id(name, at))
        if known is None or columns is None:
            continue
        for column, text in mismatches(known, columns, phase.source_type):
            steps = ("bounded_sources", at)
            said, params = f"{text}: {describe_phase(at, phase.model_dump())}", {"column": column}
            origin, label = declared.origin_of(*steps), declared.label_of(*steps)
            yield Diagnostic("phase-mismatch", said, origin, label, MISMATCH_HINT, params=params)


def _ineffective_fields(declared: Declaration[Any], source: HybridSource) -> Iterator[Diagnostic]:
    bounded = ((("bounded_sources", at), phase) for at, phase in enumerate(source.bounded_sources))
    for steps, phase in (*bounded, (("unbounded_source",), source.unbounded_source)):
        for field, why in phase.inert.items():
            if field in phase.model_fields_set:
                where = (*steps, field)
                text, label = f"this has no effect: {why}", declared.label_of(*where)
                origin, params = declared.origin_of(*where), {"field": field}
                yield Diagnostic("no-effect", text, origin, label, None, Severity.INFO, params)
