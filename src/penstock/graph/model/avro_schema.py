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
    origin, path = declared.origin_of("schema"), declared.label_of("schema")
    if node.topic is None or runtime.kafka is None:
        why = "it writes no topic" if node.topic is None else "topics are local directories here, and hold Parquet"
        params = {"field": "schema"}
        yield Diagnostic("no-effect", f"this has no effect: {why}", origin, path, None, Severity.INFO, params)
    elif declared.value.is_avro:
        yield from _avro_problems(declared, node, runtime)
    elif declared.value.schema_.compatibility is not None:
        text = "this has no effect: records in JSON have no schema in a registry"
        hint = "add `format: avro`, or leave it out"
        place = ("schema", "compatibility")
        params = {"field": "schema.compatibility"}
        origin, path = declared.origin_of(*place), declared.label_of(*place)
        yield Diagnostic("no-effect", text, origin, path, hint, Severity.WARNING, params)


def _avro_problems(declared: Declaration[written.Model], node: Node, runtime: Runtime) -> Iterator[Diagnostic]:
    origin, path = declared.origin_of("schema"), declared.label_of("schema")
    if runtime.schema_registry is None:
        text, hint = (
            "records in Avro need a schema registry",
            "name it in `runtime.schema_registry`, or write `format: json`",
        )
        yield Diagnostic("missing-field", text, origin, path, hint, params={"field": "runtime.schema_registry"})
    try:
        avro_record(node.name, [column for column in node.columns or () if column.name != OP])
    except ValueError as error:
        hint = "give the column a type with CAST, or another name with AS"
        yield Diagnostic("schema-unknown", str(error), origin, path, hint, params={"model": node.name})
    if not node.columns:
        text, hint = (
            "the columns of the model are not known, so they have no schema",
            "declare the columns of its sources",
        )
        yield Diagnostic("schema-unknown", text, origin, path, hint, params={"model": node.name})
