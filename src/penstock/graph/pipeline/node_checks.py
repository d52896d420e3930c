"""Checks a node of a pipeline by itself: its columns, and fields without effect."""

from collections.abc import Iterator

from penstock.clients.rows.reserved_columns import invalid_names_error
from penstock.connectors.contract import Sink, Source
from penstock.connectors.node import PipelineNode, inert_fields
from penstock.errors import Diagnostic, Severity, did_you_mean
from penstock.graph.graph import Node
from penstock.project.validation.declaration import Declaration
from penstock.row_columns import OP


def name_clashes(declared: Declaration[Source], node: Node) -> Iterator[Diagnostic]:
    """Report columns of files whose names clash. Other sources may read only the columns that are used."""
    names = [column.name for column in node.columns or ()]
    facts = declared.value.capabilities
    if facts.has_files and (wrong := invalid_names_error(names, f"`{node.name}`", facts.rename_hint)):
        yield Diagnostic(wrong.code, wrong.message, declared.origin, declared.label, wrong.hint)


def ineffective_fields(declared: Declaration[PipelineNode]) -> Iterator[Diagnostic]:
    """Report fields without effect."""
    for field, why in inert_fields(type(declared.value)).items():
        if declared.has_field(field):
            text, path = f"this has no effect: {why}", declared.label_of(field)
            params = {"field": field}
            yield Diagnostic("no-effect", text, declared.origin_of(field), path, None, Severity.INFO, params)


def missing_columns(declared: Declaration[Sink], node: Node) -> Iterator[Diagnostic]:
    """Report columns that a sink names and its known rows do not have."""
    present = [column.name for column in node.columns or () if column.name != OP]
    for path, name in declared.value.capabilities.named_columns.items():
        if node.columns is not None and name not in present:
            failed = f"update_where validation failed for sink '{node.name}': " * path.startswith("update_where.")
            text = f"{failed}there is no column `{name}`; available: {', '.join(present)}"
            hint, params = did_you_mean(name, present), {"column": name}
            label = f"{declared.label}.{path}"
            yield Diagnostic(
                "column-missing", text, declared.origin_of(*path.split(".", 1)), label, hint, params=params
            )
