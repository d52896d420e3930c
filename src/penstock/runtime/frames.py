"""A QuerySpec as Spark DataFrames."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, StructField, StructType

from penstock.connectors.contract import Source
from penstock.connectors.registry import source_from
from penstock.manifest.model import Input, Manifest, QuerySpec
from penstock.runtime.filling import Filling
from penstock.runtime.ml.functions import MlFunctions
from penstock.sql.dialects import quoted
from penstock.sql.translate import OPERATION
from penstock.sql.types import Column, Columns


class Frames:
    """Builds the streams of a manifest. The columns of a model are those that Spark itself finds for its query."""

    def __init__(self, manifest: Manifest, root: Path, spark: SparkSession, filling: Filling) -> None:
        self.manifest = manifest
        self.root = root
        self.filling = filling
        self._spark = spark
        self._columns: dict[str, Columns] = {}
        self._functions = MlFunctions(root, spark)

    def session(
        self, poll_ms: int = 10, partitions: int | None = None, conf: Mapping[str, str] = MappingProxyType({})
    ) -> SparkSession:
        """A session of its own: views of one query are never seen by another. State keeps the partitions it has."""
        session = self._spark.newSession()
        session.conf.set("spark.sql.streaming.pollingDelay", f"{poll_ms}ms")
        for key, value in conf.items():
            session.conf.set(key, value)
        if partitions is not None:
            session.conf.set("spark.sql.shuffle.partitions", partitions)
        return session

    def sources(self, query: QuerySpec) -> list[Source]:
        """What the query reads; the topic of a model with the columns that its writer puts out."""
        return [self._source(entry) for entry in query.inputs]

    def _source(self, entry: Input) -> Source:
        source = source_from(self.filling.connector(entry.source), self.root)
        producer = self.manifest.producer(entry.node)
        return source if producer is None else source.with_columns(self._columns_of(entry.node, producer))

    def _columns_of(self, node_id: str, producer: QuerySpec) -> Columns:
        if node_id not in self._columns:
            frame = self.tried(producer)
            self._columns[node_id] = tuple(Column(c.name, _ddl(c.dataType)) for c in frame.schema)
        return self._columns[node_id]

    def tried(self, query: QuerySpec) -> DataFrame:
        """What a query with one output puts out, as Spark understands it; nothing is started."""
        session = self.session()
        self.open_inputs(query, self.sources(query), session)
        return self.run_steps(query, session)[query.outputs[0].view]

    def open_inputs(self, query: QuerySpec, sources: Sequence[Source], session: SparkSession) -> dict[str, DataFrame]:
        """The query's streams by view name, each registered as that view."""
        streams = {}
        for entry, source in zip(query.inputs, sources, strict=True):
            stream = prepared(source.read(session, entry.name), entry)
            if query.stateful and entry.event_time is not None:
                stream = stream.withWatermark(entry.event_time.column, f"{entry.event_time.delay_ms} milliseconds")
            stream.createOrReplaceTempView(quoted(entry.view))
            streams[entry.view] = stream
        return streams

    def run_steps(self, query: QuerySpec, session: SparkSession) -> dict[str, DataFrame]:
        """Every view of the query, the steps applied in order."""
        self._functions.register(query.asks, session)
        for step in query.steps:
            parameters = self.filling.parameters(step)
            rows = session.sql(step.sql, args=parameters) if parameters else session.sql(step.sql)
            rows.createOrReplaceTempView(quoted(step.view))
            if query.asks:
                self._functions.check(rows, query.asks)
        views = {*(i.view for i in query.inputs), *(s.view for s in query.steps)}
        return {view: session.table(quoted(view)) for view in views}


def _ddl(data_type: DataType) -> str:
    """A type as SQL, names of struct fields in quotes where they need them."""
    return StructType([StructField("x", data_type)]).toDDL().removeprefix("x ")


def prepared(frame: DataFrame, entry: Input) -> DataFrame:
    """The rows of an input as its readers expect them: with their operation, and with event time as a timestamp."""
    if entry.with_operation and OPERATION not in frame.columns:
        frame = frame.withColumn(OPERATION, f.lit("i"))
    for column in entry.processing_time:
        frame = frame.withColumn(column, f.current_timestamp())
    if entry.event_time is None:
        return frame
    time = entry.event_time.column
    match dict(frame.dtypes).get(time):
        case "bigint" | "int":
            return frame.withColumn(time, f.timestamp_millis(f.col(quoted(time))))
        case "string":
            return frame.withColumn(time, f.to_timestamp(f.col(quoted(time))))
        case _:
            return frame


def shared_read(streams: Mapping[str, DataFrame]) -> DataFrame:
    """One stream that carries the rows of all: a column per stream, filled in its own rows only."""
    if len(streams) == 1:
        return next(iter(streams.values()))
    frames = []
    for place, stream in enumerate(streams.values()):
        cells = [
            (f.struct("*") if other == place else f.lit(None).cast(frame.schema)).alias(f"in_{other}")
            for other, frame in enumerate(streams.values())
        ]
        frames.append(stream.select(f.lit(place).alias("which"), *cells))
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


def split_read(batch: DataFrame, views: list[str]) -> dict[str, DataFrame]:
    """A batch of `shared_read`, taken apart again."""
    if len(views) == 1:
        return {views[0]: batch}
    return {view: batch.where(f.col("which") == place).select(f"in_{place}.*") for place, view in enumerate(views)}
