"""Builds the Spark DataFrames of queries."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.connectors.contract import ORIGIN, ReadRequest
from penstock.manifest.model import Check, EventTimeSpec, Input, KeyedStep, LateRowSpec, Manifest, QuerySpec, Step
from penstock.row_columns import CLOCK
from penstock.runtime.query import event_time, row_guards
from penstock.runtime.query.compaction import compact_rows
from penstock.runtime.query.decode_errors import drop_undecodable, filter_decodable
from penstock.runtime.query.functions.registry import FunctionRegistry
from penstock.runtime.query.input_rows import columns_of, prepare_input, register_view, select_used
from penstock.runtime.query.inputs import QueryInput, input_request
from penstock.runtime.query.ml.functions import MlFunctions
from penstock.runtime.query.provenance import carry_query_column
from penstock.runtime.query.resolve_config import ConfigResolver
from penstock.runtime.query.stateful import apply_operator
from penstock.runtime.query.step_sql import check_sql, rewrite_int256, step_views
from penstock.runtime.query.watermark_heartbeat import read_heartbeats
from penstock.runtime.spark.analysis_errors import attribute_errors, check_outputs
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.types.columns import Columns


class Frames:
    """Builds the DataFrames of a manifest's queries. A model has the columns that Spark finds for its query."""

    def __init__(
        self,
        manifest: Manifest,
        root: Path,
        spark: SparkSession,
        resolver: ConfigResolver,
        now_ms: int | None = None,
        heartbeat_directory: Callable[[str], Path] | None = None,
    ) -> None:
        """With `now_ms`, the clock of every query is fixed."""
        self.manifest = manifest
        self.root = root
        self.resolver = resolver
        self._spark = spark
        self._now_ms = now_ms
        self._heartbeat_directory = heartbeat_directory
        self._columns: dict[str, Columns] = {}
        self._models = MlFunctions(root, spark)
        self._functions = FunctionRegistry(root, spark)

    def session(
        self,
        poll_ms: int = 10,
        partitions: int | None = None,
        conf: Mapping[str, str] = MappingProxyType({}),
        now_ms: int | None = None,
    ) -> SparkSession:
        """Open a session of its own: no query sees the views of another. State keeps its number of partitions."""
        session = self._spark.newSession()
        session.conf.set("spark.sql.streaming.pollingDelay", f"{poll_ms}ms")
        for key, value in conf.items():
            session.conf.set(key, value)
        fixed_ms = self._now_ms if now_ms is None else now_ms
        now = "current_timestamp()" if fixed_ms is None else f"timestamp_millis({fixed_ms})"
        session.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {CLOCK}() RETURNS TIMESTAMP RETURN {now}")
        if partitions is not None:
            session.conf.set("spark.sql.shuffle.partitions", partitions)
        return session

    def inputs(self, query: QuerySpec) -> list[QueryInput]:
        """Return the inputs of a query; the topic of a model with the columns that its writer produces."""
        only = None if query.pushdown.columns is None else frozenset(query.pushdown.columns)
        found = [(entry, self._produced_columns(entry.node)) for entry in query.inputs]
        return [
            QueryInput(entry, self.resolver.source(entry.source), input_request(entry, columns, only))
            for entry, columns in found
        ]

    def peek_node(self, node_id: str) -> DataFrame:
        """Return the current rows of a node; those of a model with the columns that its query produces."""
        source = self.resolver.source(self.manifest.streams[node_id])
        columns = self._produced_columns(node_id) if source.known_columns() is None else None
        return source.peek(self._spark, ReadRequest(columns=columns))

    def _produced_columns(self, node_id: str) -> Columns | None:
        """Return the columns that the writer of a node produces; None if no query writes it."""
        producer = self.manifest.producer(node_id)
        if producer is not None and node_id not in self._columns:
            (output,) = producer.outputs
            self._columns[node_id] = columns_of(compact_rows(self.analyze_query(producer), output))
        return self._columns.get(node_id)

    def analyze_query(self, query: QuerySpec) -> DataFrame:
        """Return the output of a query with one output, as analyzed by Spark; nothing is started."""
        session = self.session()
        self.open_inputs(query, self.inputs(query), session)
        return self.run_steps(query, session)[query.outputs[0].view]

    def open_inputs(
        self, query: QuerySpec, inputs: Sequence[QueryInput], session: SparkSession, *, observed: bool = False
    ) -> dict[str, DataFrame]:
        """Open the query's streams, and register each as a view. Returns them by view name.

        With `observed`, Spark's progress reports how many records could not be decoded.
        """
        alone = len(query.inputs) == 1 and not observed
        self._register(query, session)
        used = query.pushdown.views
        streams = {}
        for each in inputs:
            entry = each.entry
            if entry.static:
                each.open_table(session).createOrReplaceTempView(quote_spark_identifier(entry.view))
                continue
            with attribute_errors(entry.node):
                stream = prepare_input(filter_decodable(each.open_stream(session), entry, alone=alone), entry)
            if query.timed and entry.event_time is not None:
                stream = self._add_watermark(query, entry, entry.event_time, stream)
            stream = self._guard_rows(query, entry.view, stream)
            streams[entry.view] = register_view(entry, select_used(stream, used.get(entry.view)))
        return streams

    def _register(self, query: QuerySpec, session: SparkSession) -> None:
        """Register the models and functions that a query calls. Guards and steps call them."""
        self._models.register(query.asks, session)
        self._functions.register(query.functions, session)

    def _guard_rows(self, query: QuerySpec, view: str, rows: DataFrame) -> DataFrame:
        check = next((check for check in query.checks if check.view == view), None)
        if check is None:
            return rows
        register_row_functions(rows.sparkSession, " ".join(check.expressions))
        return row_guards.guard_rows(rows, check)

    def _add_watermark(self, query: QuerySpec, entry: Input, time: EventTimeSpec, stream: DataFrame) -> DataFrame:
        if event_time.can_drop_untimed(query):
            return event_time.add_plain_watermark(stream, time)
        if time.idle_ms is None:
            return event_time.add_counted_watermark(stream, entry)
        assert self._heartbeat_directory is not None
        directory = self._heartbeat_directory(query.name)
        return event_time.add_counted_watermark(stream, entry, read_heartbeats(stream.sparkSession, directory, entry))

    def run_steps(self, query: QuerySpec, session: SparkSession) -> dict[str, DataFrame]:
        """Apply the steps in order, and return every view of the query."""
        self._register(query, session)
        checked = {output.view for output in query.outputs}
        if self.manifest.project.format == "pipeline":
            checked.update(step.node for step in query.steps)
        used = query.pushdown.views
        for step in query.steps:
            with attribute_errors(step.node):
                self._run(query, [step], session, used)
                if step.view in checked:
                    check_outputs(session.table(quote_spark_identifier(step.view)).columns)
        return step_views(query, session)

    def compute_views(
        self,
        query: QuerySpec,
        inputs: Sequence[QueryInput],
        rows: Mapping[str, DataFrame],
        session: SparkSession,
        *,
        untimed: bool = False,
    ) -> dict[str, DataFrame]:
        """Compute every view of a query from rows of its inputs, by view; lookup tables are opened.

        Rows that the stream filters out are filtered out too, except those without usable event time if `untimed`.
        """
        self._register(query, session)
        for each in inputs:
            entry = each.entry
            if entry.static:
                each.open_table(session).createOrReplaceTempView(quote_spark_identifier(entry.view))
            elif entry.view in rows:
                usable = self.prepare_reread(query, entry, rows[entry.view], untimed=untimed)
                register_view(entry, self._guard_rows(query, entry.view, usable))
        self._run(query, query.steps, session)
        return step_views(query, session)

    def prepare_reread(self, query: QuerySpec, entry: Input, rows: DataFrame, *, untimed: bool) -> DataFrame:
        """Prepare reread rows of an input for the SQL. Additional columns are kept."""
        found = drop_undecodable(rows).drop(ORIGIN)
        return prepare_input(found, entry) if untimed else self._drop_untimed(query, entry, found)

    def step_sql(self, query: QuerySpec, session: SparkSession) -> dict[str, str]:
        """Return the SQL with which Spark computes the views of a query, in a session where they exist."""
        steps = [step for step in query.steps if isinstance(step, Step)]
        return {step.view: rewrite_int256(step.sql, query, session) for step in steps}

    def failing_rows(self, query: QuerySpec, check: Check, rows: DataFrame) -> DataFrame:
        """Return the rows that were kept out of a query because its SQL fails on them, from reread input rows."""
        entry = query.input(check.input)
        register_row_functions(rows.sparkSession, " ".join(check.expressions))
        self._register(query, rows.sparkSession)
        if not check.steps:
            return row_guards.failing_rows(self._drop_untimed(query, entry, drop_undecodable(rows)), check)
        others = tuple(other for other in query.checks if other is not check)
        self._recompute_views(query.model_copy(update={"checks": others}), entry, rows, check.steps)
        return row_guards.failing_rows(rows.sparkSession.table(quote_spark_identifier(check.view)), check)

    def rows_with_records(
        self, query: QuerySpec, view: str, entry: Input, rows: DataFrame, *, untimed: bool = False
    ) -> DataFrame | None:
        """Compute the rows of a view from reread rows of its input, each with its record.

        None if a row is not made from exactly one record, or the record is unknown. With `untimed`, rows are kept
        whatever their event time is.
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
        """Return the rows that an operator may have found late, from the reread rows of its input."""
        self._recompute_views(query, query.input(late.input), rows, late.steps)
        register_row_functions(rows.sparkSession, late.sql)
        return rows.sparkSession.sql(check_sql(late.sql, query))

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
        """Compute the views of some steps from reread rows of an input."""
        session = rows.sparkSession
        found = drop_undecodable(rows) if with_records else drop_undecodable(rows).drop(ORIGIN)
        usable = prepare_input(found, entry) if untimed else self._drop_untimed(query, entry, found)
        self._register(query, session)
        self._guard_rows(query, entry.view, usable).createOrReplaceTempView(quote_spark_identifier(entry.view))
        self._run(query, [step for step in query.steps if step.view in steps], session)

    def _drop_untimed(self, query: QuerySpec, entry: Input, rows: DataFrame) -> DataFrame:
        """Drop the rows without a usable event time from reread rows of an input."""
        found = prepare_input(rows, entry)
        if query.timed and entry.event_time is not None:
            marked = event_time.mark_faults(found, entry.event_time)
            found = marked.where(f.col(event_time.FAULT).isNull()).drop(event_time.FAULT)
        return found

    def _run(
        self,
        query: QuerySpec,
        steps: Sequence[Step | KeyedStep],
        session: SparkSession,
        used: Mapping[str, Collection[str] | None] = MappingProxyType({}),
    ) -> None:
        for step in steps:
            match step:
                case Step():
                    parameters = self.resolver.parameters(step)
                    register_row_functions(session, step.sql)
                    sql = check_sql(rewrite_int256(step.sql, query, session), query, step.parameters)
                    rows = session.sql(sql, args=parameters) if parameters else session.sql(sql)
                case KeyedStep():
                    rows = apply_operator(step, [session.table(quote_spark_identifier(view)) for view in step.inputs])
            rows = select_used(self._guard_rows(query, step.view, rows), used.get(step.view))
            rows.createOrReplaceTempView(quote_spark_identifier(step.view))
            if query.asks:
                self._models.check(rows, query.asks)
            if query.functions:
                self._functions.check(rows, query.functions)
