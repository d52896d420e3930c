"""Shows a few current rows of a node."""

import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType

from penstock.clients.clusters import EMBEDDED, Clusters
from penstock.clients.files.formats import JSON_OPTIONS
from penstock.clients.int256.columns import int256_to_texts
from penstock.errors import PlanRefused, ServiceError
from penstock.manifest.model import Manifest, Pushdown
from penstock.project.yaml.variables import Environ
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.input_rows import prepare_input
from penstock.runtime.query.resolve_config import ConfigResolver
from penstock.runtime.run.resources import resolve_schema
from penstock.runtime.spark.errors import failure_of
from penstock.spark_internals.errors import SPARK_ERRORS
from penstock.sql.parse.dialects import quote_spark_identifier


def peek(
    manifest: Manifest,
    node_id: str,
    root: Path,
    spark: SparkSession,
    limit: int,
    environ: Environ = os.environ,
    clusters: Clusters = EMBEDDED,
) -> list[dict[str, Any]]:
    """Return at most `limit` rows, as JSON values and decimals."""
    frames = Frames(manifest, root, spark, ConfigResolver(root, environ, clusters))
    while True:
        try:
            return _rows(manifest, node_id, frames, spark, limit)
        except ServiceError as error:
            if error.code == "schema-unknown" and manifest.producer(node_id):
                return []  # a model that has not written anything yet
            raise
        except SPARK_ERRORS as error:
            if not resolve_schema(clusters, error):
                raise failure_of(error).with_context(f"showing `{node_id}`") from error


def _rows(manifest: Manifest, node_id: str, frames: Frames, spark: SparkSession, limit: int) -> list[dict[str, Any]]:
    known = node_id in manifest.streams
    frame = int256_to_texts(frames.peek_node(node_id) if known else _compute_view(manifest, node_id, frames))
    rows = frame.limit(limit).select(f.to_json(f.struct("*"), JSON_OPTIONS).alias("row")).collect()
    return [_restore_decimals(json.loads(row["row"], parse_float=Decimal), frame.schema) for row in rows]


def _restore_decimals(value: Any, kind: DataType) -> Any:
    """Convert fractions, which were parsed as decimals, to floats, except in decimal columns."""
    match value, kind:
        case dict(), StructType():
            return {name: _restore_decimals(item, kind[name].dataType) for name, item in value.items()}
        case dict(), MapType():
            return {key: _restore_decimals(item, kind.valueType) for key, item in value.items()}
        case list(), ArrayType():
            return [_restore_decimals(item, kind.elementType) for item in value]
        case int(), DecimalType():
            return Decimal(value)
        case Decimal(), _:
            return value if isinstance(kind, DecimalType) else float(value)
        case _:
            return value


def _compute_view(manifest: Manifest, node_id: str, frames: Frames) -> DataFrame:
    """Compute a view or transform from the current rows of its inputs."""
    query = next((q for q in manifest.queries if any(s.view == node_id for s in q.steps)), None)
    if query is None:
        text = f"no query reads `{node_id}`, so it has no rows"
        raise PlanRefused("unknown-node", text, hint="write a model that reads it")
    session = frames.session()
    for each in frames.inputs(query):
        entry = each.entry
        rows = prepare_input(each.open_table(session), entry)
        rows.createOrReplaceTempView(quote_spark_identifier(entry.view))
    last = next(place for place, step in enumerate(query.steps) if step.view == node_id)
    needed = query.model_copy(update={"steps": query.steps[: last + 1], "pushdown": Pushdown()})
    return frames.run_steps(needed, session)[node_id]
