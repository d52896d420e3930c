"""Translates Spark's errors: which file, which value, which rule; without the hundred lines around them."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column
from pyspark.sql import functions as f

from penstock.clients.kafka.confluent_wire import UNKNOWN_SCHEMA
from penstock.clients.kafka.decode import FAULTS
from penstock.codes import CODES
from penstock.errors import PenstockError, QueryFailed
from penstock.runtime.spark.process import MORE_MEMORY, OUT_OF_MEMORY, OomKills, is_spark_gone, spark_lost_error
from penstock.spark_internals.errors import SPARK_ERRORS, SparkError, java_causes, stream_causes

_NOISE: Final = re.compile(
    r"\s*SQLSTATE: \w+|;?\s*$"
    r"|^(?:Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): )?(?:[\w.$]+(?:Exception|Error): )*"
)
_TRACEBACK: Final = "Traceback (most recent call last):"
_LONGEST: Final = 600
_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<code>[a-z0-9-]+): (?P<text>.*)")
"""The error with which an input stops a query at a row."""


def stop_condition(fault: Column, reasons: Mapping[str, str], said: str) -> Column:
    """Return a condition that holds for rows without a fault, and stops the query at a fault, for `failure_of`.

    A fault is one of the codes in `reasons`, or a code and a reason of its own.
    """
    code, why = fault_code(fault), fault_reason(fault, reasons)
    raised = f.raise_error(f.concat(code, f.lit(f": {said}: "), why))
    return f.when(code.isin(list(reasons)), raised.cast("boolean")).otherwise(fault.isNull())


def fault_code(fault: Column) -> Column:
    """Return the code of a fault, without its reason."""
    return f.substring_index(fault, ": ", 1)


def fault_reason(fault: Column, reasons: Mapping[str, str]) -> Column:
    """Return the reason of a fault: its own, or the one of its code."""
    known = f.create_map(*(f.lit(text) for pair in reasons.items() for text in pair))
    colon = f.instr(fault, ": ")
    return f.when(colon > 0, f.substring(fault, colon + 2, f.length(fault))).otherwise(known[fault])


def failure_of(error: SparkError) -> PenstockError:
    """Translate an error with its causes, outermost first. To be called while Spark still runs."""
    for text in (str(error), *java_causes(error)):
        if received := PenstockError.received(text):
            return received
    said: list[str] = []
    for message in _messages(error):
        if message and not any(message in earlier for earlier in said):
            said.append(message)
    for message in said:
        if (raised := _RAISED.fullmatch(message)) and raised["code"] in CODES:
            hint = "mend the row, or set `on_error: dead_letter` where it is read"
            return QueryFailed(raised["code"], raised["text"], hint=hint)
    if (file := file_at_fault(error)) is not None:
        hint = "mend or remove it; with `on_error: dead_letter`, a query without state reads the others without it"
        return QueryFailed("file-unreadable", f"{file.address} cannot be read: {file.why}", hint=hint)
    if misfit := _MISFIT.search("\n".join((*said, *java_causes(error)))):
        text = f"its state does not fit the rows that it reads{f': {misfit[1]}' if misfit[1] else ''}"
        hint = "give columns upstream the types that they had, or begin it again: `--allow-rebuild` and its name"
        return QueryFailed("rebuild-refused", text, hint=hint)
    if program := _NOT_STARTED.search("\n".join(said)):
        text = f"Spark cannot start {program[1]}: there is no such program"
        hint = "`spark.pyspark.python` is started on every machine of a cluster, and by queries with state on this one"
        return QueryFailed("query-failed", text, hint=hint)
    named = [message for message in said if message.startswith("[")]
    beneath = [*java_causes(error), *stream_causes(error)]
    whole = "\n".join((str(error), *beneath))
    if found := _passing_failure(whole):
        return found
    passing = _PASSING.search(whole) is not None
    plain = [*said[:1], *map(_plain_message, beneath[-1:])] if passing else said[:1]
    text = ": ".join((named or list(dict.fromkeys(plain)))[:3]) or "Spark gave no reason"
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + " …"
    return QueryFailed("query-failed", shown, retriable=passing, internal=not (named or passing))


def _passing_failure(text: str) -> QueryFailed | None:
    """Return a retriable failure that the operating system caused; None for other failures."""
    if full := _FULL.search(text):
        hint = "free some space where `.penstock` and Spark's `spark.local.dir` are"
        return QueryFailed("disk-full", f"the disk is full: {full[0]}", hint=hint, retriable=True)
    if lost := _WORKER_LOST.search(text):
        why, hint = lost[0], "it was killed or crashed; a process that is out of memory is killed like that"
        if OomKills.has_occurred():
            why, hint = OUT_OF_MEMORY, MORE_MEMORY
        return QueryFailed("worker-lost", f"a Python worker of Spark ended: {why}", hint=hint, retriable=True)
    if _WORKER_SLOW in text:
        hint = "the machine is too busy; fewer queries at a time, or more cores, help"
        said = "a Python worker of Spark did not start within 10 seconds"
        return QueryFailed("worker-lost", said, hint=hint, retriable=True)
    return None


_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded")
_WORKER_LOST: Final = re.compile(
    r"Python worker exited unexpectedly|Python worker process terminated"
    r"|^(?:Stream closed|Broken pipe)$|(?<=java\.io\.IOException: )(?:Stream closed|Broken pipe)",
    re.MULTILINE,
)
_WORKER_SLOW: Final = "Python worker failed to connect back"
_MISFIT: Final = re.compile(r"LayoutMismatch: ([^\n]+)|\[STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE\]")
_NOT_STARTED: Final = re.compile(r'Cannot run program "([^"]+)".*No such file or directory')


class FileAtFault(NamedTuple):
    """A file that Spark could not read, by its URI, and the reason."""

    address: str
    why: str


def file_at_fault(error: SparkError) -> FileAtFault | None:
    """Return the file that Spark failed to read, if there is one."""
    said = list(java_causes(error)) or [str(error)]
    for place, message in enumerate(said):
        if found := _FILE.search(message):
            reasons = [plain for later in said[place + 1 :] if (plain := _plain_message(later))]
            own = _plain_message(message[found.end() :])
            return FileAtFault(unquote(found[1]), reasons[-1] if reasons else own or "Spark gave no reason")
    return None


_FILE: Final = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S+?)\.(?:\s|$)")


def failure_in_python(error: Exception) -> PenstockError:
    """Translate any error that our own code may raise while a query runs."""
    if isinstance(error, PenstockError):
        return error
    if isinstance(error, SPARK_ERRORS):
        return failure_of(error)
    found = _passing_failure(str(error)) if isinstance(error, OSError) else None
    return found or QueryFailed("query-failed", f"{type(error).__name__}: {error}", internal=True)


@contextmanager
def expect_spark() -> Iterator[None]:
    """Translate Spark's errors within the block, and raise an error of its own if Spark's process has ended."""
    try:
        yield
    except (*SPARK_ERRORS, OSError) as error:
        if isinstance(error, SPARK_ERRORS) and not is_spark_gone(error):
            raise failure_of(error) from error
        raise spark_lost_error() from error


def is_row_error(error: SparkError | PenstockError) -> bool:
    """Whether Spark or a sink failed because of a row's values: SQLSTATE class 22, or a record too large for Kafka."""
    if isinstance(error, PenstockError):
        return error.code == "rows-refused"
    messages = [str(error), *java_causes(error)]
    states = [state for message in messages for state in _STATE.findall(message)]
    return any(state.startswith("22") for state in states) or any(_TOO_LARGE in message for message in messages)


def is_input_error(error: Exception) -> bool:
    """Whether a row cannot be processed: it cannot be decoded, or the SQL fails on it."""
    if not isinstance(error, SPARK_ERRORS):
        return False
    return is_row_error(error) or failure_of(error).code in FAULTS


def unknown_schema(error: Exception) -> int | None:
    """Return the id of the schema that a query failed for the lack of, if it did.

    The records of a batch fail on executors, inside generated code (`confluent_wire.request_schema`). Spark returns
    nothing of `raise_error` but its text, so the id travels in it, and only this function parses it.
    """
    found = _UNKNOWN_SCHEMA.search(str(error)) if isinstance(error, SPARK_ERRORS) else None
    return int(found[1], 16) if found else None


_UNKNOWN_SCHEMA: Final = re.compile(re.escape(UNKNOWN_SCHEMA) + "([0-9A-F]{8})")
_STATE: Final = re.compile(r"SQLSTATE: (\w+)")
_TOO_LARGE: Final = "org.apache.kafka.common.errors.RecordTooLargeException"
_PASSING: Final = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|NotLeaderOrFollower|"
    r"LeaderNotAvailable|CoordinatorNotAvailable|CoordinatorLoadInProgress|NotEnoughReplicas\w*|KafkaStorage|"
    r"UnknownTopicOrPartition)Exception"
    r"|No resolvable bootstrap urls"
    r"|java\.lang\.InterruptedException|java\.nio\.channels\.ClosedByInterruptException"
)
"""Temporary errors of Kafka's client: a broker that restarts, whose name may be unknown meanwhile, or a lost network.
Also Spark's errors when a thread is interrupted."""


_LOST: Final = re.compile(r"(?i)failOnDataLoss|data may have been lost|OffsetOutOfRange|UnknownTopicOrPartition")


def is_lost_records_error(error: Exception) -> bool:
    """Whether Spark reports that records that it must read are gone. A restarting broker may wrongly report that for a
    while."""
    return _LOST.search(str(error)) is not None


_WRITING: Final = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Record(?:Batch)?TooLarge|InvalidTopic|InvalidRecord|NotEnoughReplicas\w*|"
    r"InvalidRequiredAcks|ProducerFenced|InvalidProducerEpoch|OutOfOrderSequence|UnknownProducerId)Exception"
    r"|Expiring \d+ record|not present in metadata after"
)
"""Errors that only producers raise. They come from another thread, so the failing call is unknown."""


def is_write_error(error: Exception) -> bool:
    """Whether Spark's own writer failed."""
    return _WRITING.search(str(error)) is not None


def _messages(error: SparkError) -> Iterator[str]:
    causes = list(java_causes(error))
    if not causes:
        lines = [_plain_message(line) for line in str(error).splitlines()]
        yield from sorted((line for line in lines if line), key=lambda line: not line.startswith("["))
    yield from map(_plain_message, causes)


_OF_FUNCTIONS: Final = re.compile(r"(\[(?:WIDE_NUMBER|ROW_FUNCTION|USER_FUNCTION\.\w+)\] .*?)\. SQLSTATE")
_HEADER: Final = re.compile(r"CSV header does not conform to the schema\.\s+Header: ([^\n]*)\n\s*Schema: ([^\n]*)")
_HEADER_LENGTH: Final = re.compile(r"CSV header is not equal to .*\s+Header length: (\d+), schema size: (\d+)")


def _plain_message(message: str) -> str:
    """Return the first meaningful line without names of Java classes; of a Python traceback, the last line.

    Of an error in one of our functions, only its own message is returned.
    """
    if own := _OF_FUNCTIONS.search(message):
        return own[1]
    if header := _HEADER.search(message):
        return f"its header is '{header[1].strip()}', and the columns are '{header[2].strip()}'"
    if lengths := _HEADER_LENGTH.search(message):
        return f"its header has {lengths[1]} columns, and there should be {lengths[2]}"
    lines = [plain for line in message.splitlines() if (plain := _NOISE.sub("", line.strip()).strip())]
    if "[PYTHON_EXCEPTION]" in message and any(line.endswith(_TRACEBACK) for line in lines):
        return f"[PYTHON_EXCEPTION] {lines[-1]}"
    return lines[0] if lines else ""
