from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple

import typer

from penstock.cli import options, output
from penstock.cli.table import lines
from penstock.clients.clusters import Clusters
from penstock.clients.dead_letters.model import DeadLetter, PendingDeadLetters
from penstock.clients.kafka.avro_values import decode_avro, schema_number
from penstock.errors import Diagnostic, PlanRefused, ProjectInvalid, ServiceError
from penstock.plan.deployed.state import record_replay_progress
from penstock.workflow.dead_letters import find_dead_letters, mask_dead_letters
from penstock.workflow.packages import fetch_packages, packages_of
from penstock.workflow.stages import CheckedProject, check, compile_project

app = options.command_group(
    "Dead letters, rows and records that could not be processed: list, show, replay or discard them."
)
NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="NODE", help="Only dead letters of this source, model or sink.")
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="The maximum number to list. Default: 100; as JSON, all.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replay even where that replaces newer rows or restores deleted ones.")
]


class Locks(NamedTuple):
    """The lock descriptors that Spark's process inherits, and the function that records its pid."""

    descriptors: tuple[int, ...]
    note_spark: Callable[[int], None]


_SHOWN: Final = 100
_AT_ONCE: Final = 10_000
_LEFT: Final = "`penstock errors discard --node NODE` discards dead letters that cannot be replayed"


@app.command("list")
def list_(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    node: NodeOption = None,
    limit: LimitOption = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """List the pending dead letters: origin, rejecting node and reason."""
    checked = check(options.target(path, directory, env, config=config))
    found = find_dead_letters(checked, node)
    reader = ValueReader(checked.clusters)
    if form is options.OutputFormat.JSON:
        output.put_json_items(map(reader.to_json, mask_dead_letters(checked, islice(found, limit))))
        return
    shown = min(len(found), limit or _SHOWN)
    numbered = enumerate(mask_dead_letters(checked, islice(found, shown)), 1)
    for line in lines([_row(number, dead_letter, reader) for number, dead_letter in numbered], None):
        output.put(line)
    more = f" The first {shown:,} are shown; `--limit` shows more." if shown < len(found) else ""
    output.say(f"{len(found):,} dead letter{'s' if len(found) != 1 else ''}.{more}")


@app.command("show")
def show(
    number: Annotated[int, typer.Argument(help="The number that `errors list` shows.", min=1)],
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    node: NodeOption = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Show one dead letter in full."""
    checked = check(options.target(path, directory, env, config=config))
    found = find_dead_letters(checked, node)
    if number > len(found):
        text = f"there is no dead letter {number}: {len(found)} are pending"
        raise ProjectInvalid([Diagnostic("unknown-node", text, hint="see `penstock errors list`")])
    (shown_one,) = mask_dead_letters(checked, islice(found, number - 1, number))
    dead_letter = ValueReader(checked.clusters).to_json(shown_one)
    if form is options.OutputFormat.JSON:
        output.put_json(dead_letter)
        return
    for name, value in dead_letter.items():
        shown = "" if value is None else value if isinstance(value, str) else output.exact_json(value)
        output.put(f"{name:<10} {output.escape_controls(shown)}")


@app.command("replay")
def replay(
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    node: NodeOption = None,
    overwrite: OverwriteOption = False,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Replay the pending dead letters, each of them once. A row that fails again is a dead letter again.

    An upsert sink skips a dead letter whose key has a newer row by now. --overwrite writes it anyway.
    """
    checked = check(replace(options.target(path, directory, env, config=config), ask_read=True))
    with _hold_replay_lock(checked) as locks:
        found = find_dead_letters(checked, node)
        result = _replay_nodes(checked, found, locks, overwrite=overwrite) if found else []
    whys = [f"{row['records']:,} of `{each['node']}`: {row['why']}" for each in result for row in each["left"]]
    if whys and not any(row["records"] for row in result):
        raise PlanRefused("not-runnable-here", "; ".join(whys), hint=_LEFT)
    if form is options.OutputFormat.JSON:
        output.put_json(result)
        return
    if not result:
        output.put("There are no dead letters to replay.")
    for row in result:
        failed = f", {row['failed']:,} failed again" if row["failed"] else ""
        output.put(f"{row['node']}: {row['records']:,} replayed, {row['rows']:,} rows out{failed}")
        if row["superseded"]:
            output.put(f"{row['node']}: {row['superseded']:,} not written: a newer row of their key was written since")
        for left in row["left"]:
            output.put(f"{row['node']}: {left['records']:,} not replayed: {left['why']}")
    if whys:
        output.say(_LEFT)


@app.command("discard")
def discard(
    node: Annotated[
        str, typer.Option("--node", metavar="NODE", help="The dead letters of this source, model or sink.")
    ],
    path: options.PathArgument = None,
    directory: options.DirectoryOption = None,
    config: options.ConfigOption = None,
    env: options.EnvOption = None,
    code: Annotated[str | None, typer.Option("--code", help="Only dead letters with this code.")] = None,
    form: options.FormatOption = options.OutputFormat.TEXT,
) -> None:
    """Discard dead letters: they are no longer listed or replayed. Nothing is deleted."""
    checked = check(options.target(path, directory, env, config=config))
    count, store = 0, checked.marks
    with _hold_replay_lock(checked):
        chosen = (dead_letter for dead_letter in find_dead_letters(checked, node) if code in (None, dead_letter.code))
        while some := list(islice(chosen, _AT_ONCE)):
            record_replay_progress(store, checked.place, some)
            count += len(some)
    if form is options.OutputFormat.JSON:
        output.put_json({"discarded": count})
        return
    output.put(f"{count:,} dead letter{'s' if count != 1 else ''} discarded.")


@contextmanager
def _hold_replay_lock(checked: CheckedProject) -> Iterator[Locks]:
    """Hold the lock for replays. Two replays at a time would write dead letters twice."""
    from penstock.runtime.run.lock import run_lock

    place, busy = checked.place, "another process is already replaying the dead letters of this project"
    held = checked.marks.hold_lock(f"{place.namespace} letters", busy)
    with run_lock(place.replay_lock, busy, "wait until it has finished", say=output.say) as lock, held as hold:
        yield Locks((lock.descriptor, *hold.descriptors), lock.note_spark)


def _replay_nodes(
    checked: CheckedProject, found: PendingDeadLetters, locks: Locks, *, overwrite: bool
) -> list[dict[str, Any]]:
    from penstock.clients.jvm.java import find_java

    manifest = compile_project(checked)
    find_java()
    jars = fetch_packages(packages_of(manifest, checked.environ), output.say)
    output.say("Starting Spark …")
    from penstock.runtime.replay.replay import replay_dead_letters
    from penstock.runtime.spark.session import spark_session

    store = checked.marks
    result = []
    logs, inherited = checked.place.logs, locks.descriptors
    with spark_session(manifest.spark, logs, jars, inherited=inherited, note_pid=locks.note_spark) as spark:
        for name in dict.fromkeys(found.nodes.values()):
            some = found.of(name)
            about = (spark, checked.place, store, checked.environ, checked.clusters)
            done = replay_dead_letters(manifest, name, some, *about, overwrite=overwrite)
            left = [{"records": count, "why": why} for why, count in done.left.items()]
            delivered = len(some) - sum(done.left.values())
            counts = {"records": delivered, "rows": done.written, "failed": done.failed, "left": left}
            result.append({"node": name, **counts, "superseded": done.superseded})
    return result


class ValueReader:
    """Decodes Avro values with the schemas of the registry. Asks once per schema."""

    def __init__(self, clusters: Clusters) -> None:
        book = None if clusters.source is None else clusters.source.schemas
        self._registry = None if book is None else book.registry
        self._schemas: dict[int, str | None] = {}

    def text(self, dead_letter: DeadLetter) -> str:
        """The value as text."""
        found = self.decode_value(dead_letter)
        return str(dead_letter.about["value"] or "") if found is None else output.exact_json(found)

    def to_json(self, dead_letter: DeadLetter) -> dict[str, Any]:
        """The dead letter as JSON, with an Avro value decoded."""
        found = self.decode_value(dead_letter)
        return dead_letter.to_json() if found is None else {**dead_letter.to_json(), "decoded": found}

    def decode_value(self, dead_letter: DeadLetter) -> Any:
        """The decoded value of an Avro record; None if it is not Avro or cannot be decoded."""
        number = None if dead_letter.value is None else schema_number(dead_letter.value)
        schema = None if number is None else self._schema(number)
        if schema is None or dead_letter.value is None:
            return None
        try:
            return decode_avro(schema, dead_letter.value)
        except ValueError:
            return None

    def _schema(self, number: int) -> str | None:
        if number not in self._schemas:
            self._schemas[number] = self._fetch_schema(number)
        return self._schemas[number]

    def _fetch_schema(self, number: int) -> str | None:
        if self._registry is None:
            return None
        try:
            found = self._registry.schema(number)
        except (LookupError, ValueError):
            return None
        except ServiceError:
            self._registry = None
            return None
        return found.text if found.kind == "AVRO" else None


def _row(number: int, dead_letter: DeadLetter, reader: ValueReader) -> dict[str, Any]:
    about = dead_letter.about
    return {
        "": number,
        "record": dead_letter.record,
        "code": about["code"],
        "reason": _shorten(str(about["message"] or ""), 100),
        "rejected by": dead_letter.node,
        "time": about["time"],
        "value": _shorten(reader.text(dead_letter), 40),
    }


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
