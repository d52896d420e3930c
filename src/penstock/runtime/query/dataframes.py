"""A QuerySpec as Spark DataFrames."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pyspark.errors import AnalysisException
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BooleanType, DataType, StructField, StructType

from penstock.clients.int256.columns import has_int256
from penstock.clients.int256.register import register_int256
from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.connectors.contract import ORIGIN, Source
from penstock.manifest.model import Check, EventTimeSpec, Input, KeyedStep, LateRowSpec, Manifest, QuerySpec, Step
from penstock.manifest.queries.input_columns import RESERVED, has_operators, used_view_columns
from penstock.row_columns import CLOCK, OP, ORDER
from penstock.runtime.query import row_guards, watermark_heartbeat
from penstock.runtime.query.compaction import compact_rows
from penstock.runtime.query.decode_errors import drop_origin, drop_undecodable, filter_decodable
from penstock.runtime.query.event_time import (
    FAULT,
    add_counted_watermark,
    add_plain_watermark,
    can_drop_untimed,
    convert_event_time,
    mark_faults,
)
from penstock.runtime.query.ml.functions import MlFunctions
from penstock.runtime.query.provenance import PLACE, carry_query_column
from penstock.runtime.query.resolve_config import ConfigResolver
from penstock.runtime.query.stateful import apply_operator
from penstock.runtime.spark.analysis_errors import attribute_errors, check_outputs
from penstock.sql.analyze.used_columns import ColumnNames
from penstock.sql.lint.gate import check_expression, check_statement
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.pushdown.referenced_columns import referenced_names
from penstock.sql.rewrite.int256 import rewrite_int256, rewrite_int256_condition
from penstock.sql.stateful.stages import ORDERED
from penstock.sql.types.columns import Column, Columns
from penstock.sql.types.int256 import mentions_int256


class Frames:
    """Builds the streams of a manifest. The columns of a model are those that Spark itself finds for its query."""

    def __init__(
        self,
        manifest: Manifest,
        root: Path,
        spark: SparkSession,
        filling: ConfigResolver,
        now_ms: int | None = None,
        beats_of: Callable[[str], Path] | None = None,
    ) -> None:
        """With `now_ms`, the clock of every query stands still at that time. `beats_of` has heartbeats by query."""
        self.manifest = manifest
        self.root = root
        self.filling = filling
        self._spark = spark
        self._now_ms = now_ms
        self._beats_of = beats_of
        self._columns: dict[str, Columns] = {}
        self._functions = MlFunctions(root, spark)

    def session(
        self,
        poll_ms: int = 10,
        partitions: int | None = None,
        conf: Mapping[str, str] = MappingProxyType({}),
        now_ms: int | None = None,
    ) -> SparkSession:
        """A session of its own: views of one query are never seen by another. State keeps the partitions it has."""
        session = self._spark.newSession()
        session.conf.set("spark.sql.streaming.pollingDelay", f"{poll_ms}ms")
        for key, value in conf.items():
            session.conf.set(key, value)
        stands_at = self._now_ms if now_ms is None else now_ms
        now = "current_timestamp()" if stands_at is None else f"timestamp_millis({stands_at})"
        session.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {CLOCK}() RETURNS TIMESTAMP RETURN {now}")
        if partitions is not None:
            session.conf.set("spark.sql.shuffle.partitions", partitions)
        return session

    def sources(self, query: QuerySpec) -> list[Source]:
        """What the query reads; the topic of a model with the columns that its writer puts out."""
        names = _referenced_names(query)
        found = [self._source(entry) for entry in query.inputs]
        return found if names is None else [source.with_only(names) for source in found]

    def node_source(self, node_id: str) -> Source:
        """How the rows of a node are read; those of a model with the columns that its query puts out."""
        source = self.filling.source(self.manifest.streams[node_id])
        return self._with_columns(source, node_id) if source.known_columns() is None else source

    def _source(self, entry: Input) -> Source:
        source = self._with_columns(self.filling.source(entry.source), entry.node)
        if entry.cast_to:
            source = source.with_columns(tuple(Column(name, kind) for name, kind in entry.cast_to.items()))
        elif entry.declared:
            source = source.with_declared(tuple(Column(name, kind) for name, kind in entry.declared.items()))
        source = source if entry.condition is None else source.where(check_expression(entry.condition))
        return source.without_order() if entry.any_order else source

    def _with_columns(self, source: Source, node_id: str) -> Source:
        producer = self.manifest.producer(node_id)
        return source if producer is None else source.with_columns(self._columns_of(node_id, producer))

    def _columns_of(self, node_id: str, producer: QuerySpec) -> Columns:
        if node_id not in self._columns:
            (output,) = producer.outputs
            self._columns[node_id] = columns_of(compact_rows(self.analyze_query(producer), output))
        return self._columns[node_id]

    def analyze_query(self, query: QuerySpec) -> DataFrame:
        """What a query with one output puts out, as Spark understands it; nothing is started."""
        session = self.session()
        self.open_inputs(query, self.sources(query), session)
        return self.run_steps(query, session)[query.outputs[0].view]

    def open_inputs(
        self, query: QuerySpec, sources: Sequence[Source], session: SparkSession, *, observed: bool = False
    ) -> dict[str, DataFrame]:
        """The query's streams by view name, each registered as that view.

        If they are to be `observed`, Spark's progress tells how much of them could not be read.
        """
        alone = len(query.inputs) == 1 and not observed
        used = used_view_columns(query) if has_operators(query) else {}
        streams = {}
        for entry, source in zip(query.inputs, sources, strict=True):
            if entry.static:
                source.peek(session).createOrReplaceTempView(quote_spark_identifier(entry.view))
                continue
            read = source.read_in_order if entry.ordered else source.read
            with attribute_errors(entry.node):
                stream = prepare_input(filter_decodable(read(session, entry.name), entry, alone=alone), entry)
            if query.timed and entry.event_time is not None:
                stream = self._add_watermark(query, entry, entry.event_time, stream)
            stream = self._guard_rows(query, entry.view, stream)
            streams[entry.view] = _register_view(entry, _select_used(stream, used.get(entry.view)))
        return streams

    def _guard_rows(self, query: QuerySpec, view: str, rows: DataFrame) -> DataFrame:
        check = next((check for check in query.checks if check.view == view), None)
        if check is None:
            return rows
        register_row_functions(rows.sparkSession, " ".join(check.expressions))
        return row_guards.guard_rows(rows, check)

    def _add_watermark(self, query: QuerySpec, entry: Input, time: EventTimeSpec, stream: DataFrame) -> DataFrame:
        if can_drop_untimed(query):
            return add_plain_watermark(stream, time)
        heard = (
            None
            if time.idle_ms is None
            else watermark_heartbeat.read_heartbeats(stream.sparkSession, self._heartbeat_directory(query), entry)
        )
        return add_counted_watermark(stream, entry, heard)

    def _heartbeat_directory(self, query: QuerySpec) -> Path:
        assert self._beats_of is not None
        return self._beats_of(query.name)

    def run_steps(self, query: QuerySpec, session: SparkSession) -> dict[str, DataFrame]:
        """Every view of the query, the steps applied in order."""
        self._functions.register(query.asks, session)
        told_apart = {output.view for output in query.outputs}
        if self.manifest.project.format == "pipeline":
            told_apart.update(step.node for step in query.steps)
        used = used_view_columns(query) if has_operators(query) else {}
        for step in query.steps:
            with attribute_errors(step.node):
                self._run(query, [step], session, used)
                if step.view in told_apart:
                    check_outputs(session.table(quote_spark_identifier(step.view)).columns)
        return _views(query, session)

    def compute_views(
        self,
        query: QuerySpec,
        sources: Sequence[Source],
        rows: Mapping[str, DataFrame],
        session: SparkSession,
        *,
        untimed: bool = False,
    ) -> dict[str, DataFrame]:
        """Every view of a query made from these rows of its inputs, by their views; the others are tables.

        What the stream keeps out is kept out, but rows whose time is at fault only if they are not wanted.
        """
        for entry, source in zip(query.inputs, sources, strict=True):
            if entry.static:
                source.peek(session).createOrReplaceTempView(quote_spark_identifier(entry.view))
            elif entry.view in rows:
                usable = self.prepare_reread(query, entry, rows[entry.view], untimed=untimed)
                _register_view(entry, self._guard_rows(query, entry.view, usable))
        self._functions.register(query.asks, session)
        self._run(query, query.steps, session)
        return _views(query, session)

    def prepare_reread(self, query: QuerySpec, entry: Input, rows: DataFrame, *, untimed: bool) -> DataFrame:
        """Rows of an input as the SQL gets them. Columns that they have beside their own are carried along."""
        found = drop_origin(drop_undecodable(rows))
        return prepare_input(found, entry) if untimed else self._drop_untimed(query, entry, found)

    def step_sql(self, query: QuerySpec, session: SparkSession) -> dict[str, str]:
        """The SQL by which Spark makes the views of a query, in a session where they were made."""
        steps = [step for step in query.steps if isinstance(step, Step)]
        return {step.view: _rewrite_int256(step.sql, query, session) for step in steps}

    def failing_rows(self, query: QuerySpec, check: Check, rows: DataFrame) -> DataFrame:
        """The rows of a batch that were kept out, of a batch of their input that is given once more."""
        entry = next(entry for entry in query.inputs if entry.view == check.input)
        register_row_functions(rows.sparkSession, " ".join(check.expressions))
        if not check.steps:
            return row_guards.failing_rows(self._drop_untimed(query, entry, drop_undecodable(rows)), check)
        others = tuple(other for other in query.checks if other is not check)
        self._recompute_views(query.model_copy(update={"checks": others}), entry, rows, check.steps)
        return row_guards.failing_rows(rows.sparkSession.table(quote_spark_identifier(check.view)), check)

    def rows_with_records(
        self, query: QuerySpec, view: str, entry: Input, rows: DataFrame, *, untimed: bool = False
    ) -> DataFrame | None:
        """The rows of a view of a query, made of rows of its input that are given once more, each with its record.

        None where a row of the one is not made of one of the other, or nobody knows its record. With `untimed`, they
        come whatever their event time is.
        """
        carried = carry_query_column(query, ORIGIN)
        if carried is None or ORIGIN not in rows.columns:
            return None
        try:
            steps = [step.view for step in carried.steps]
            self._recompute_views(carried, entry, rows, steps, with_records=True, untimed=untimed)
        except AnalysisException:
            return None
        made = rows.sparkSession.table(quote_spark_identifier(view))
        return made if ORIGIN in made.columns else None

    def late_rows(self, query: QuerySpec, late: LateRowSpec, rows: DataFrame) -> DataFrame:
        """The rows that an operator may have found late, of a batch of its input that is given once more."""
        entry = next(entry for entry in query.inputs if entry.view == late.input)
        self._recompute_views(query, entry, rows, late.steps)
        register_row_functions(rows.sparkSession, late.sql)
        return rows.sparkSession.sql(_check_sql(late.sql, query))

    def _recompute_views(
        self,
        query: QuerySpec,
        entry: Input,
        rows: DataFrame,
        steps: Sequence[str],
        *,
        with_records: bool = False,
        untimed: bool = False,
    ) -> None:
        """Make the views of some steps from rows of an input that are read again."""
        session = rows.sparkSession
        found = drop_undecodable(rows) if with_records else drop_origin(drop_undecodable(rows))
        usable = prepare_input(found, entry) if untimed else self._drop_untimed(query, entry, found)
        self._guard_rows(query, entry.view, usable).createOrReplaceTempView(quote_spark_identifier(entry.view))
        self._functions.register(query.asks, session)
        self._run(query, [step for step in query.steps if step.view in steps], session)

    def _drop_untimed(self, query: QuerySpec, entry: Input, rows: DataFrame) -> DataFrame:
        """Rows of an input that are read again, without those whose time is at fault."""
        found = prepare_input(rows, entry)
        if query.timed and entry.event_time is not None:
            found = mark_faults(found, entry.event_time).where(f.col(FAULT).isNull()).drop(FAULT)
        return found

    def _run(
        self,
        query: QuerySpec,
        steps: Sequence[Step | KeyedStep],
        session: SparkSession,
        used: Mapping[str, ColumnNames] = MappingProxyType({}),
    ) -> None:
        for step in steps:
            match step:
                case Step():
                    parameters = self.filling.parameters(step)
                    register_row_functions(session, step.sql)
                    sql = _check_sql(_rewrite_int256(step.sql, query, session), query, step.parameters)
                    rows = session.sql(sql, args=parameters) if parameters else session.sql(sql)
                case KeyedStep():
                    rows = apply_operator(step, [session.table(quote_spark_identifier(view)) for view in step.inputs])
            rows = _select_used(self._guard_rows(query, step.view, rows), used.get(step.view))
            rows.createOrReplaceTempView(quote_spark_identifier(step.view))
            if query.asks:
                self._functions.check(rows, query.asks)


def _views(query: QuerySpec, session: SparkSession) -> dict[str, DataFrame]:
    views = {*(i.view for i in query.inputs), *(s.view for s in query.steps)}
    return {view: session.table(quote_spark_identifier(view)) for view in views}


def _check_sql(sql: str, query: QuerySpec, parameters: Collection[str] = ()) -> str:
    """A statement, if it may be given to Spark."""
    views = [part.view for part in (*query.inputs, *query.steps)]
    views += [entry.view + ORDERED for entry in query.inputs if entry.ordered]
    return check_statement(sql, views, [model.function for model in query.asks], parameters)


def _rewrite_int256(sql: str, query: QuerySpec, session: SparkSession) -> str:
    """SQL that Spark understands, of SQL that may have to do with 256-bit numbers."""
    views = [
        view for view in (part.view for part in (*query.inputs, *query.steps)) if quote_spark_identifier(view) in sql
    ]
    tables = {view: session.table(quote_spark_identifier(view)) for view in views}
    if not mentions_int256(sql) and not any(map(has_int256, tables.values())):
        return sql
    register_int256(session)
    return rewrite_int256(sql, tuple((view, columns_of(table)) for view, table in tables.items()))


def filter_rows(frame: DataFrame, condition: str) -> DataFrame:
    """The rows that meet a condition of SQL."""
    register_row_functions(frame.sparkSession, condition)
    if mentions_int256(condition) or has_int256(frame):
        register_int256(frame.sparkSession)
        condition = rewrite_int256_condition(condition, columns_of(frame))
    return frame.where(check_expression(condition))


def _referenced_names(query: QuerySpec) -> frozenset[str] | None:
    """The names of all columns that a query can mean; None if it may mean any."""
    inputs, steps = {entry.view for entry in query.inputs}, [s for s in query.steps if isinstance(s, Step)]
    if len(steps) < len(query.steps) or any(output.view in inputs for output in query.outputs):
        return None
    conditions = (f"SELECT 1 WHERE {entry.condition}" for entry in query.inputs if entry.condition is not None)
    texts = (text for e in query.inputs if (t := e.event_time) is not None for text in (t.made_of, t.where) if text)
    computed = (f"SELECT {text}" for text in texts)
    named = referenced_names([*(step.sql for step in steps), *conditions, *computed])
    times = (entry.event_time.column.lower() for entry in query.inputs if entry.event_time is not None)
    return None if named is None else named.union(times)


def columns_of(frame: DataFrame) -> Columns:
    return tuple(Column(c.name, _ddl(c.dataType)) for c in frame.schema)


def _ddl(data_type: DataType) -> str:
    """A type as SQL, names of struct fields in quotes where they need them."""
    return StructType([StructField("x", data_type)]).toDDL().removeprefix("x ")


def _select_used(rows: DataFrame, names: ColumnNames) -> DataFrame:
    """The rows with the columns that are used: operators keep whole rows, and must not keep what nobody asks for."""
    columns = rows.columns
    if names is None or len(set(map(str.lower, columns))) < len(columns):
        return rows
    kept = [name for name in columns if name.lower() in names or name in RESERVED]
    if len(kept) == len(columns):
        return rows
    return rows.select(*map(quote_spark_identifier, kept)) if any(name not in RESERVED for name in kept) else rows


def _register_view(entry: Input, rows: DataFrame) -> DataFrame:
    """The rows as the view of their input, and as another one with their order if that is wanted."""
    if entry.ordered:
        columns = [name for name in rows.columns if name not in ORDER]
        packed = rows.select(f.struct(*map(quote_spark_identifier, columns)).alias("row"), *ORDER)
        packed.createOrReplaceTempView(quote_spark_identifier(entry.view + ORDERED))
        rows = rows.drop(*ORDER)
    rows.createOrReplaceTempView(quote_spark_identifier(entry.view))
    return rows


def prepare_input(frame: DataFrame, entry: Input) -> DataFrame:
    """The rows of an input as its readers expect them: those that they want, with their operation, and with event time
    as a timestamp."""
    if entry.with_operation:  # as the last column, so that branches of a UNION with `*` have it at the same place
        operation = f.col(OP) if OP in frame.columns else f.lit("i").alias(OP)
        frame = frame.select(*(quote_spark_identifier(name) for name in frame.columns if name != OP), operation)
    if entry.upsert_key:  # nobody knows whether a key was there before, and an update fits both
        said = f.lower(f.col(OP)) if OP in frame.columns else f.lit(None)
        frame = frame.withColumn(OP, f.when(said == "d", "d").otherwise("u"))
    if entry.cast_to:
        types = {name: kind for name, kind in entry.cast_to.items() if name != OP}
        types |= {OP: "STRING"} if entry.with_operation or OP in entry.cast_to else {}
        kept = [name for name in frame.columns if name == PLACE]
        frame = frame.select(*(_cast_column(frame, name, kind).alias(name) for name, kind in types.items()), *kept)
    if entry.condition is not None:
        frame = filter_rows(frame, entry.condition)
    for column in entry.processing_time:
        frame = frame.withColumn(column, f.expr(f"{CLOCK}()"))
    return frame if entry.event_time is None else convert_event_time(frame, entry.event_time)


def _cast_column(frame: DataFrame, name: str, kind: str) -> Expression:
    """A column as another type, where Spark stops at a value that would change."""
    column = f.col(quote_spark_identifier(name))
    if kind == "BOOLEAN" and not isinstance(frame.schema[name].dataType, BooleanType):
        column = column.cast("STRING")  # which is true for 1 and false for 0, and nothing for other numbers
    return column.cast(kind)
