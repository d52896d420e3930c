"""A few rows of a node, as they are now."""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.formats import JSON_OPTIONS
from penstock.connectors.registry import source_from
from penstock.errors import PlanRefused, ServiceError
from penstock.manifest.model import Manifest, QuerySpec
from penstock.project.variables import Environ
from penstock.runtime.failures import SPARK_ERRORS, failure_of
from penstock.runtime.filling import Filling
from penstock.runtime.frames import Frames, prepared
from penstock.sql.dialects import quoted


def peek(
    manifest: Manifest, node_id: str, root: Path, spark: SparkSession, limit: int, environ: Environ = os.environ
) -> list[str]:
    """At most `limit` rows, each as one JSON object."""
    filling = Filling(environ)
    frames = Frames(manifest, root, spark, filling)
    try:
        if node_id in manifest.streams:
            frame = source_from(filling.connector(manifest.streams[node_id]), root).peek(spark)
        else:
            frame = _computed(manifest, node_id, frames)
        rows = frame.limit(limit).select(f.to_json(f.struct("*"), JSON_OPTIONS).alias("row")).collect()
    except ServiceError as error:
        if error.code == "schema-unknown" and manifest.producer(node_id):
            return []  # a model that has not written anything yet
        raise
    except SPARK_ERRORS as error:
        raise failure_of(error).during(f"showing `{node_id}`") from error
    return [row["row"] for row in rows]


def _computed(manifest: Manifest, node_id: str, frames: Frames) -> DataFrame:
    """A view or transform, made by its SQL from what its inputs hold now."""
    query = next((q for q in manifest.queries if any(s.view == node_id for s in q.steps)), None)
    if query is None:
        text = f"no query reads `{node_id}`, so it has no rows"
        raise PlanRefused("unknown-node", text, hint="write a model that reads it")
    session = frames.session()
    for entry in query.inputs:
        source = source_from(frames.filling.connector(entry.source), frames.root)
        rows = prepared(source.peek(session), entry)
        rows.createOrReplaceTempView(quoted(entry.view))
    needed = _steps_up_to(query, node_id)
    return frames.run_steps(needed, session)[node_id]


def _steps_up_to(query: QuerySpec, node_id: str) -> QuerySpec:
    last = next(place for place, step in enumerate(query.steps) if step.view == node_id)
    return query.model_copy(update={"steps": query.steps[: last + 1]})
