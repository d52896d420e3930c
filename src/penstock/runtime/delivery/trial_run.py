"""Computes one output of a query from rows of its inputs, outside the stream and without writing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.batch import BatchRef
from penstock.clients.jvm.udfs.functions import register_row_functions
from penstock.connectors.contract import Sink
from penstock.manifest.model import Check, QueryOutput, QuerySpec, Step
from penstock.row_columns import ORDER
from penstock.runtime.delivery.fan_out import split_streams
from penstock.runtime.query import row_guards
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.inputs import QueryInput
from penstock.runtime.query.provenance import PLACE, carry_query_column
from penstock.runtime.query.row_guards import MESSAGE
from penstock.sql.analyze.fallible_query import find_fallible


@dataclass(frozen=True, slots=True)
class TrialRun:
    """Tries rows without writing them, so that `bisect` can find those that fail.

    `prepare` makes rows of the output ready for the sink. In a replay, `as_stream` gives rows the columns of their
    stream, and rows are accepted whatever their event time is.
    """

    frames: Frames
    query: QuerySpec
    inputs: Sequence[QueryInput]
    output: QueryOutput
    sink: Sink
    ref: BatchRef
    prepare: Callable[[DataFrame], DataFrame]
    as_stream: Callable[[DataFrame], DataFrame] | None = None

    def compute_output(self, rows: DataFrame) -> DataFrame:
        return self._run_query(rows, self.query)

    def rehearse(self, rows: DataFrame) -> None:
        """Process rows as if they were written, without a trace, and raise what that raises."""
        self.sink.trial(self.compute_output(rows), self.ref)

    def find_failing_rows(self, numbered: DataFrame) -> DataFrame | None:
        """Return the numbers of rows that an expression of the SQL fails on, with a message.

        None for queries with guards, or with keyed operators.
        """
        query, session = self.query, numbered.sparkSession
        if query.checks or not all(isinstance(step, Step) for step in query.steps):
            return None
        self.compute_output(numbered.drop(PLACE))
        read = split_streams(numbered, [entry.view for entry in query.streams], PLACE)
        untimed = self.as_stream is not None
        rows = {e.view: self.frames.prepare_reread(query, e, read[e.view], untimed=untimed) for e in query.streams}
        columns = {view: tuple(n for n in frame.columns if n not in (PLACE, *ORDER)) for view, frame in rows.items()}
        asked = frozenset(asked.function for asked in query.asks)
        risky = find_fallible(self.output.view, self.frames.step_sql(query, session), columns, asked)
        failing = (_number_failing(rows[view], view, texts) for view, texts in risky.items())
        frames = [frame for frame in failing if frame is not None]
        return reduce(DataFrame.union, frames) if frames else None

    def find_rejected_rows(self, numbered: DataFrame) -> Iterator[tuple[int, str]] | None:
        """Return the numbers of rows that the sink rejects, with the reasons; None if it cannot tell."""
        carried = carry_query_column(self.query, PLACE)
        if carried is None:
            return None
        try:
            rows = self._run_query(numbered, carried)
            return self.sink.trial(rows, self.ref, PLACE) if PLACE in rows.columns else None
        except AnalysisException:
            return None

    def _run_query(self, rows: DataFrame, query: QuerySpec) -> DataFrame:
        session, untimed = rows.sparkSession, self.as_stream is not None
        rows = rows if self.as_stream is None else self.as_stream(rows)
        read = split_streams(rows, [entry.view for entry in query.streams])
        views = self.frames.compute_views(query, self.inputs, read, session, untimed=untimed)
        return self.prepare(views[self.output.view])


def _number_failing(rows: DataFrame, view: str, expressions: Sequence[str]) -> DataFrame | None:
    """Return the numbers of rows that an expression fails on. Expressions that Spark cannot resolve are skipped."""
    register_row_functions(rows.sparkSession, " ".join(expressions))
    known = tuple(text for text in expressions if _is_resolvable(rows, text))
    check = Check(view=view, expressions=known, input=view)
    return row_guards.failing_rows(rows, check).select(PLACE, MESSAGE) if known else None


def _is_resolvable(rows: DataFrame, expression: str) -> bool:
    try:
        return bool(rows.select(f.expr(expression)).columns)
    except AnalysisException:
        return False
