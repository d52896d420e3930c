"""Compacts the rows of a batch before they are written."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.clients.int256.columns import int256_to_texts
from penstock.clients.rows.key_order import partition_in_order
from penstock.connectors.contract import Sink
from penstock.manifest.model import QueryOutput
from penstock.row_columns import OP, ORDER, SIGN, WAS
from penstock.sql.parse.dialects import quote_spark_identifier


def compact_rows(rows: DataFrame, output: QueryOutput) -> DataFrame:
    """Compact a batch to at most one change per key."""
    if output.latest_by is not None:
        return _last_change_per_key(rows, output.latest_by)
    return rows if output.fold is None else net_changes(rows, output.fold)


def prepare_rows(rows: DataFrame, output: QueryOutput, sink: Sink, *, spread: bool = False) -> DataFrame:
    """Compact a batch as a sink requires, and convert its types. If the rows of a key are `spread` over tasks, they are
    put into one, for sinks that need it."""
    needs = sink.capabilities
    found = last_row_per_key(rows, needs.compaction_key) if needs.compaction_key else compact_rows(rows, output)
    if spread and needs.last_arrival_wins:
        found = partition_in_order(found, sink.primary_key)
    return found if needs.takes_int256 else int256_to_texts(found)


def last_row_per_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Compact a batch to the last row per key. Rows of a batch are in the partitions and in the order in which they
    were read, as long as nothing has grouped or joined them."""
    place = f.monotonically_increasing_id()
    placed = rows.select(f.struct(*map(quote_spark_identifier, rows.columns)).alias("_row"), place.alias("_place"))
    keys = [f.col(f"_row.{quote_spark_identifier(name)}").alias(f"_key_{at}") for at, name in enumerate(key)]
    return placed.groupBy(*keys).agg(f.max_by("_row", "_place").alias("_row")).select("_row.*")


def _last_change_per_key(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Compact a batch to the last change per key. A row that was both inserted and deleted within it is dropped.

    Without a key, all changes of whole rows remain, in any order.
    """
    names = [quote_spark_identifier(name) for name in rows.columns if name not in (*ORDER, WAS)]
    if not key:
        return rows.select(*names)
    order = f.struct(*ORDER)
    last, first = f.max_by(f.struct(*names), order), f.min_by(f.col(WAS), order)
    grouped = rows.groupBy(*map(quote_spark_identifier, key)).agg(last.alias("_row"), first.alias("_first"))
    gone, came = f.col(f"_row.{OP}") == "d", f.col("_first") == "i"
    operation = f.when(gone & came, None).when(gone, "d").when(came, "i").otherwise("u")
    kept = [name for name in names if name != quote_spark_identifier(OP)]
    found = grouped.select(*(f.col(f"_row.{name}") for name in kept), operation.alias(OP))
    return found.where(f.col(OP).isNotNull())


def net_changes(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Fold the signed rows of a batch into changes: one per key, or of whole rows if there is no key."""
    names = [quote_spark_identifier(name) for name in rows.columns if name != SIGN]
    if not key:
        net = rows.groupBy(*names).agg(f.sum(SIGN).alias(SIGN)).where(f.col(SIGN) != 0)
        operation = f.when(f.col(SIGN) < 0, "d").otherwise("i").alias(OP)
        each = f.explode(f.array_repeat(operation, f.abs(f.col(SIGN)).cast("int"))).alias(OP)
        return net.select(*names, each)
    grouped = rows.groupBy(*map(quote_spark_identifier, key)).agg(
        f.max_by(f.struct(*names), f.col(SIGN)).alias("_row"), f.max(SIGN).alias("_came"), f.min(SIGN).alias("_went")
    )
    operation = f.when(f.col("_came") < 0, "d").when(f.col("_went") < 0, "u").otherwise("i")
    return grouped.select("_row.*", operation.alias(OP))
