"""Finds records to replay whose keys have newer records in the source.

A sink that replaces rows by key must not get them: it would end with an older row, or with a deleted one. A record is
newer if it has a higher offset in the same partition, or a later timestamp in another one.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.clients.dead_letters.model import DeadLetter
from penstock.connectors.contract import ORIGIN, RecordSource
from penstock.runtime.query.inputs import QueryInput
from penstock.sql.parse.dialects import quote_spark_identifier

_MILLISECOND = 1000


def newer_rows(read: QueryInput, dead_letters: Sequence[DeadLetter], rows: DataFrame) -> DataFrame | None:
    """Read the records of the source after the oldest of some dead letters; None if their order is unknown.

    `rows` are those of the dead letters themselves.
    """
    source, topic = read.source, getattr(read.source, "topic", None)
    if not isinstance(source, RecordSource):
        return None
    abouts = [dead_letter.about for dead_letter in dead_letters]
    if any(a["topic"] != topic or None in (a["partition"], a["offset"], a["timestamp"]) for a in abouts):
        return None
    places = {a["partition"]: a["offset"] for a in sorted(abouts, key=lambda a: -a["offset"])}
    oldest = min(datetime.fromisoformat(a["timestamp"]).timestamp() for a in abouts)
    return source.newer_rows(rows.sparkSession, read.request, places, int(oldest * _MILLISECOND))


def find_superseded(own: DataFrame, newer: DataFrame, key: Sequence[str]) -> Collection[tuple[int, int]]:
    """Return partition and offset of the records whose keys occur in newer rows. All rows carry their records."""
    later = _select_positions(newer, key, "newer")
    keys = [f"newer_{at}" for at in range(len(key))]
    place, time = f.max("newer_offset").alias("newer_offset"), f.max("newer_timestamp").alias("newer_timestamp")
    last = later.groupBy(*keys, "newer_partition").agg(place, time)
    mine = _select_positions(own, key, "own")
    same = [f.col(f"own_{at}").eqNullSafe(f.col(f"newer_{at}")) for at in range(len(key))]
    same_partition = f.col("own_partition") == f.col("newer_partition")
    behind = f.when(same_partition, f.col("newer_offset") > f.col("own_offset"))
    behind = behind.otherwise(f.col("newer_timestamp") > f.col("own_timestamp"))
    condition = behind
    for each in same:
        condition = condition & each
    found = last.join(f.broadcast(mine), condition).select("own_partition", "own_offset").distinct()
    return {(row["own_partition"], row["own_offset"]) for row in found.collect()}


def _select_positions(rows: DataFrame, key: Sequence[str], prefix: str) -> DataFrame:
    columns = [f.col(quote_spark_identifier(name)).alias(f"{prefix}_{at}") for at, name in enumerate(key)]
    places = [f.col(f"{ORIGIN}.{name}").alias(f"{prefix}_{name}") for name in ("partition", "offset", "timestamp")]
    return rows.select(*columns, *places)
