"""Checks that an Avro schema can be made from a model's columns."""

from collections.abc import Iterator

from penstock.errors import Diagnostic, Severity
from penstock.graph.graph import Node
from penstock.project import stream_project as written
from penstock.project.runtime import Runtime
from penstock.project.validation.declaration import Declaration
from penstock.row_columns import OP
from penstock.sql.types.avro_types import avro_record


def schema_notes(declared: Declaration[written.Model], node: Node, runtime: Runtime) -> Iterator[Diagnostic]:
    """Diagnostics about the schema of a model's records."""
    if declared.value.schema_ is None:
        return
    if node.topic is None or runtime.kafka is None:
        why = "it writes no topic" if node.topic is None else "topics are local directories here, and hold Parquet"
        text = f"this has no effect: {why}"
        yield declared.diagnostic("no-effect", text, at=("schema",), severity=Severity.INFO, field="schema")
    elif declared.value.is_avro:
        yield from _avro_problems(declared, node, runtime)
    elif declared.value.schema_.compatibility is not None:
        text = "this has no effect: records in JSON have no schema in a registry"
        hint, at, field = "add `format: avro`, or leave it out", ("schema", "compatibility"), "schema.compatibility"
        yield declared.diagnostic("no-effect", text, hint, at=at, severity=Severity.WARNING, field=field)


def _avro_problems(declared: Declaration[written.Model], node: Node, runtime: Runtime) -> Iterator[Diagnostic]:
    at, name = ("schema",), node.name
    if runtime.schema_registry is None:
        text, field = "records in Avro need a schema registry", "runtime.schema_registry"
        hint = "name it in `runtime.schema_registry`, or write `format: json`"
        yield declared.diagnostic("missing-field", text, hint, at=at, field=field)
    try:
        avro_record(name, [column for column in node.columns or () if column.name != OP])
    except ValueError as error:
        hint = "give the column a type with CAST, or another name with AS"
        yield declared.diagnostic("schema-unknown", str(error), hint, at=at, model=name)
    if not node.columns:
        text = "the columns of the model are not known, so they have no schema"
        yield declared.diagnostic("schema-unknown", text, "declare the columns of its sources", at=at, model=name)
