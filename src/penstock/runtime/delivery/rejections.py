"""Why rows do not reach a sink: a closed union, and how each kind is counted.

| rejection | found by | dead letters in the topic of |
|---|---|---|
| `Undecodable` | the stream, which filters such records out | the input |
| `Untimed` | the stream, in front of the watermark | the input |
| `Failing` | the stream of a stateful query, by a guard in front of the SQL | the first output |
| `Late` | a stateful operator | the input |
| `UnreadFiles` | Spark or the file system, when a batch of files is read | the input |
| `GoneRecords` | the scan after a commit, when Kafka has deleted what it must read | the input |
| `RuleBroken` | the rules of data tests, in front of the sink | the output |
| `Refused` | the sink itself, while it writes | the output |
| `Faulty` | bisection of a batch that the SQL or the sink fails over | the output |

What the stream filters out is only counted by it. `collector` reads the batch again for the rows, and only if there are
any.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from pyspark.sql import SparkSession

from penstock.manifest.model import Check, Input, KeyedStep, LateRowSpec, QueryOutput, QuerySpec
from penstock.runtime.query.decode_errors import count_undecodable, undecodable_metric
from penstock.runtime.query.event_time import can_drop_untimed, input_metric
from penstock.runtime.query.inputs import QueryInput
from penstock.runtime.query.row_guards import failed_metric
from penstock.runtime.query.stateful import turn_metric
from penstock.spark_internals.plan_metrics import count_untimed_rows, observed_value


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Records of an input that could not be decoded."""

    entry: Input


@dataclass(frozen=True, slots=True)
class Untimed:
    """Rows without a usable event time. For several inputs, only their sum may be known."""

    entries: tuple[Input, ...]


@dataclass(frozen=True, slots=True)
class Failing:
    """Rows that an expression of a stateful query would fail on."""

    check: Check


@dataclass(frozen=True, slots=True)
class Late:
    """Rows that came after their window, or their moment, was over."""

    step: KeyedStep
    late: LateRowSpec


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """Files of an input that are missing or unreadable, by URI, with the reasons."""

    entry: Input
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GoneRecords:
    """Ranges of records that were deleted before they could be scanned: partition, first and last offset."""

    entry: Input
    ranges: Sequence[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class RuleBroken:
    """Rows that break a rule of a data test."""

    output: QueryOutput


@dataclass(frozen=True, slots=True)
class Refused:
    """Rows that a sink's system rejected while the others were written."""

    output: QueryOutput


@dataclass(frozen=True, slots=True)
class Faulty:
    """Rows that make the SQL or the sink fail. `joint` ones fail only together with the rows before them. If a query
    has several streams, `view` is the one that they came from."""

    output: QueryOutput
    view: str | None = None
    joint: bool = False


StreamRejection: TypeAlias = Undecodable | Untimed | Failing | Late
InputRejection: TypeAlias = UnreadFiles | GoneRecords
OutputRejection: TypeAlias = RuleBroken | Refused | Faulty
Rejection: TypeAlias = StreamRejection | InputRejection | OutputRejection


def stream_rejections(query: QuerySpec, inputs: Sequence[QueryInput]) -> Iterator[StreamRejection]:
    """Return the kinds of rejections that the stream of a query filters out."""
    for each in inputs:
        if each.source.capabilities.has_records:
            yield Undecodable(each.entry)
    timed = tuple(entry for entry in query.inputs if query.timed and entry.event_time is not None)
    if timed and can_drop_untimed(query):
        yield Untimed(timed)
    else:
        yield from (Untimed((entry,)) for entry in timed)
    yield from map(Failing, query.checks)
    for step in query.steps:
        if isinstance(step, KeyedStep) and step.late is not None:
            yield Late(step, step.late)


def count_rejected(rejection: StreamRejection, query: QuerySpec, session: SparkSession) -> int:
    """Return how many rows of the current batch the stream has filtered out. To be called when the batch is written."""
    match rejection:
        case Undecodable(entry):
            return count_undecodable(session, query.name, entry, alone=len(query.inputs) == 1)
        case Untimed(entries) if can_drop_untimed(query):
            return count_untimed_rows(session, query.name)
        case Untimed(entries):
            return sum(observed_value(session, query.name, input_metric(entry)) for entry in entries)
        case Failing(check):
            return observed_value(session, query.name, failed_metric(check))
        case Late(step):
            return observed_value(session, query.name, turn_metric(step.view))
    assert_never(rejection)


def observed_count(rejection: StreamRejection, observed: Mapping[str, int]) -> int:
    """Return how many rows of a committed batch the stream has filtered out, from Spark's report."""
    match rejection:
        case Undecodable(entry):
            return observed.get(undecodable_metric(entry), 0)
        case Failing(check):
            return observed.get(failed_metric(check), 0)
        case Untimed() | Late():
            raise AssertionError("a query with event time or state runs in batches")
    assert_never(rejection)


def count_label(rejection: Rejection) -> str:
    """Return the label under which rejected rows are counted, and counts of several attempts are compared."""
    match rejection:
        case Undecodable(entry):
            return f"{entry.view} unreadable"
        case Untimed(entries):
            return " ".join(("untimed", *(entry.view for entry in entries)))
        case Failing(check):
            return f"{check.view} fails"
        case Late(step):
            return f"{step.view} late"
        case UnreadFiles(entry):
            return f"{entry.view} files"
        case GoneRecords(entry):
            return f"{entry.view} gone"
        case RuleBroken(output):
            return f"{output.node} rules"
        case Refused(output):
            return f"{output.node} refused"
        case Faulty(output):
            return f"{output.node} isolated"
    assert_never(rejection)
