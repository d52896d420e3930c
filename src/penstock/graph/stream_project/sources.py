"""Sources of a project as nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from penstock.clients.registry.columns import columns_of
from penstock.errors import Diagnostic, did_you_mean
from penstock.graph.analysis import match_spelling, missing_key
from penstock.graph.graph import EventTimeColumn, Node
from penstock.graph.model.topics import check_topic_name
from penstock.project import stream_project as written
from penstock.project.runtime import Runtime
from penstock.project.validation.declaration import Declaration
from penstock.project.validation.mistakes import is_cut_type
from penstock.row_columns import OP
from penstock.sql.types.columns import TIME_TYPES, TYPE_NAMES, Column, Columns, spark_type


def source_node(
    declared: Declaration[written.Source], schemas: Mapping[str, Columns], defaults: written.Defaults
) -> tuple[Node, list[Diagnostic]]:
    source = declared.value
    diagnostics = check_topic_name(declared)
    node_id = f"source.{source.name}"
    from_schema, notes = _schema_columns(declared)
    columns, further = _row_columns(declared, from_schema or schemas.get(node_id))
    diagnostics += [*notes, *further]
    if source.columns and source.has_schema and node_id in schemas:
        diagnostics += _schema_mismatches(declared, schemas[node_id])
    if source.key and columns:
        columns = tuple(column for column in columns if column.name != OP)  # each of its rows has it anyhow
    key = match_spelling(source.key, columns)
    event_time = written_time = None
    if source.event_time is not None:
        event_time = EventTimeColumn.declared(source.event_time.column, source.event_time)
        names, at = [c.name for c in columns or ()], ("event_time", "column")
        written_time = next((c.type for c in columns or () if c.name == event_time.column), None)
        columns = columns and tuple(_to_timestamp(c) if c.name == event_time.column else c for c in columns)
        if names and event_time.column not in names:
            text, hint = f"the source has no column `{event_time.column}`", did_you_mean(event_time.column, names)
            diagnostics.append(declared.diagnostic("event-time-missing", text, hint, at=at))
        kind = next((c.type for c in columns or () if c.name == event_time.column), None)
        if kind not in TIME_TYPES:
            text = f"`{event_time.column}` is of type {kind}, which cannot be an event time"
            hint = "an event time is TIMESTAMP, DATE, text, or BIGINT with milliseconds since 1970"
            diagnostics.append(declared.diagnostic("event-time-type", text, hint, at=at, type=str(kind)))
    node = Node(
        node_id,
        "source",
        source.name,
        source,
        declared.origin,
        columns=columns,
        key=key,
        flow="changes" if key else "rows",
        change_key=key,
        event_time=event_time,
        written_time=written_time,
        on_error=source.on_error or defaults.on_error,
        classification={c.name.casefold(): c.classification for c in source.columns if c.classification},
        owner=source.owner,
        tags=source.tags,
        description=source.description,
    )
    return node, [*diagnostics, *missing_key(key, node, declared, "key")]


def _row_columns(
    declared: Declaration[written.Source], known: Columns | None
) -> tuple[Columns | None, list[Diagnostic]]:
    """The columns of a row; `known` are those of its schema or files. A list without any type only describes columns.
    In a list with types, a column without one has the type of the schema, or is text without a schema.
    """
    source = declared.value
    listed, diagnostics = declared_columns(declared, None if source.has_schema else "STRING")
    if listed is None:
        return known, diagnostics
    clocks = tuple(column for column in listed if column.name in source.clocks)
    if not source.has_row_columns:
        return known and (*known, *clocks), diagnostics
    types = {column.name: column.type for column in known or () if source.has_schema}
    return tuple(replace(column, type=column.type or types.get(column.name)) for column in listed), diagnostics


def unreadable_formats(
    sources: Iterable[Declaration[written.Source]], nodes: Mapping[str, Node], runtime: Runtime
) -> Iterator[Diagnostic]:
    """Report sources in an unsupported format that some model reads from Kafka."""
    read = {name for node in nodes.values() if node.materialized != "virtual_topic" for name in node.inputs}
    for declared in sources:
        schema = declared.value.schema_
        if schema is None or schema.format != "protobuf" or runtime.kafka is None:
            continue
        if f"source.{declared.value.name}" in read:
            text = "Protobuf records are not supported, only Avro and JSON"
            hint = "have the connector write Avro; a pipeline with `data_format: raw` passes the bytes through"
            at = ("schema", "format")
            yield declared.diagnostic("format-unsupported", text, hint, at=at, format=schema.format)


def declared_columns(
    declared: Declaration[written.Source] | Declaration[written.Model], default: str | None
) -> tuple[Columns | None, list[Diagnostic]]:
    """The declared columns with their Spark types; None if there are none."""
    diagnostics: list[Diagnostic] = []
    columns: list[Column] = []
    for position, column in enumerate(declared.value.columns):
        kind = spark_type(column.type) if column.type is not None else default
        kind = "TIMESTAMP" if column.proctime else kind
        if kind is None and column.type is not None:
            origin = declared.origin_of("columns", position, "type")
            path = f"{declared.label}.columns.{column.name}.type"
            text = f"`{column.type}` is not a type"
            hint = did_you_mean(column.type.partition("(")[0].partition("<")[0].upper(), TYPE_NAMES, otherwise="types")
            if is_cut_type(column.type):
                hint = "the type is incomplete: quote the type, because inside {} a comma begins a new field"
            diagnostics.append(Diagnostic("unknown-column-type", text, origin, path, hint))
        columns.append(Column(column.name, kind))
    return tuple(columns) or None, diagnostics


def _schema_columns(declared: Declaration[written.Source]) -> tuple[Columns | None, list[Diagnostic]]:
    schema = declared.value.schema_
    if schema is None or schema.definition is None:
        return None, []
    try:
        return columns_of(schema.definition, schema.format or "avro"), []
    except ValueError as error:
        at, hint = ("schema", "definition"), "see `schema.format`"
        return None, [declared.diagnostic("invalid-value", str(error), hint, at=at)]


def _schema_mismatches(declared: Declaration[written.Source], known: Columns) -> list[Diagnostic]:
    """Report declared columns that the schema of the source does not have."""
    names = [c.name for c in known]
    found = []
    for position, column in enumerate(declared.value.columns):
        if column.name not in names and not column.proctime:
            text, hint = f"the schema has no column `{column.name}`", did_you_mean(column.name, names)
            origin, path = declared.origin_of("columns", position, "name"), declared.label_of("columns", position)
            found.append(Diagnostic("contract-broken", text, origin, path, hint, params={"column": column.name}))
    return found


def _to_timestamp(column: Column) -> Column:
    """The columns with the event time as a timestamp: text, numbers and dates are converted when they are read."""
    return Column(column.name, "TIMESTAMP") if column.type in (None, "STRING", "BIGINT", "INT", "DATE") else column
