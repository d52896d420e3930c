"""Backfill: inputs that read several sources one after the other, and the phase that a query is in.

A note in the checkpoint counts the finished phases, so that a restart continues with the current one. That all are
finished is also stored next to the offsets, for a machine that has lost its disk. All phases share the checkpoint:
every reader has a name of its own there, and batch numbers continue, so that sinks never confuse batches of two phases.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.connectors.contract import ReadRequest
from penstock.connectors.hybrid import MISMATCH_HINT, describe_phase
from penstock.errors import PlanRefused
from penstock.manifest.model import Backfill, Input, QuerySpec
from penstock.runtime.checkpoint.layout import read_note, start_offset, write_note
from penstock.runtime.query.dataframes import Frames
from penstock.runtime.query.input_rows import columns_of
from penstock.runtime.run.resources import RunResources
from penstock.sql.types.coercion import mismatches
from penstock.sql.types.columns import Columns

_NOTE: Final = "phases.json"


class BackfillPhases:
    """The phases of a query's inputs."""

    def __init__(self, spec: QuerySpec, checkpoint: Path, frames: Frames, resources: RunResources) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._frames = frames
        self._resources = resources
        self._noted: dict[str, dict[str, Any]] = read_note(checkpoint, _NOTE) or {}

    @property
    def finished(self) -> bool:
        """Whether all phases are finished and no topic follows."""
        backfills = [(entry, entry.backfill) for entry in self._spec.streams]
        return all(backfill is not None and self._has_finished(entry, backfill) for entry, backfill in backfills)

    @property
    def is_backfilling(self) -> bool:
        """Whether a phase is being read, so that the query ends by itself."""
        return any(self._finished_phases(entry) < len(backfill.phases) for entry, backfill in self._backfilled_inputs())

    @property
    def phase_label(self) -> str | None:
        """The phase, as `1 of 3`; None if there are none."""
        found = [
            f"{min(self._finished_phases(entry) + 1, _phase_count(b))} of {_phase_count(b)}"
            for entry, b in self._backfilled_inputs()
        ]
        return ", ".join(found) or None

    def current_query(self) -> QuerySpec:
        """Return the query with the sources of its phase. Start offsets are recorded before the first phase."""
        if not any(True for _ in self._backfilled_inputs()):
            return self._spec
        session = self._frames.session()
        self._record_start_offsets()
        inputs = [
            self._phase_input(entry, entry.backfill, session) if entry.backfill else entry
            for entry in self._spec.inputs
        ]
        return self._spec.model_copy(update={"inputs": tuple(inputs)})

    def advance_phase(self) -> bool:
        """Note the end of the phase. Returns whether another one follows."""
        ended = [(entry, b) for entry, b in self._backfilled_inputs() if self._finished_phases(entry) < len(b.phases)]
        for entry, _ in ended:
            self._noted[entry.name] = {**self._noted[entry.name], "done": self._finished_phases(entry) + 1}
        if ended:
            write_note(self._checkpoint, _NOTE, self._noted)
        return any(not self._has_finished(entry, backfill) for entry, backfill in ended)

    def _backfilled_inputs(self) -> Iterator[tuple[Input, Backfill]]:
        return ((entry, entry.backfill) for entry in self._spec.inputs if entry.backfill is not None)

    def _finished_phases(self, entry: Input) -> int:
        return int(self._noted.get(entry.name, {}).get("done", 0))

    def _has_finished(self, entry: Input, backfill: Backfill) -> bool:
        return backfill.is_all and self._finished_phases(entry) >= len(backfill.phases)

    def _phase_input(self, entry: Input, backfill: Backfill, session: SparkSession) -> Input:
        done = self._finished_phases(entry)
        if done >= len(backfill.phases) and not backfill.is_all:
            return self._topic_input(entry, backfill)
        wanted = columns_of(self._frames.resolver.source(entry.source).peek(session, ReadRequest()))
        for at, later in enumerate(backfill.phases[done:], done):
            read = self._frames.resolver.source(later.source).peek(session, ReadRequest(columns=wanted))
            _check_columns(at, later.source, columns_of(read), wanted)
        phase = backfill.phases[min(done, len(backfill.phases) - 1)]
        types = {column.name: str(column.type) for column in wanted}
        said = {"name": phase.name, "source": phase.source, "cast_to": types, "condition": None, "backfill": None}
        return entry.model_copy(update=said)

    def _topic_input(self, entry: Input, backfill: Backfill) -> Input:
        """Return the input that reads the topic, from its recorded start."""
        self._resources.note_phases(self._spec, entry, backfill)
        begins = {int(number): int(at) for number, at in self._noted[entry.name]["begins"].items()}
        if start_offset(self._checkpoint, entry.name) is None:
            self._resources.check_start_offsets(self._spec, self._checkpoint, str(entry.source["topic"]), begins)
        source = {**entry.source, "starting_offsets": begins} if begins else entry.source
        return entry.model_copy(update={"source": source, "backfill": None})

    def _record_start_offsets(self) -> None:
        """Record the start offsets of topics before the first phase: later, records that came meanwhile would be
        missed. A query that has lost its checkpoint may find in the store that it had reached its topic."""
        new = [(entry, backfill) for entry, backfill in self._backfilled_inputs() if entry.name not in self._noted]
        for entry, backfill in new:
            stored = self._resources.resume_offsets(self._spec, entry, backfill)
            done = len(backfill.phases) if stored else 0
            self._noted[entry.name] = {"done": done, "begins": stored or self._resources.start_offsets(entry, backfill)}
        if new:
            write_note(self._checkpoint, _NOTE, self._noted)


def _phase_count(backfill: Backfill) -> int:
    return len(backfill.phases) + (not backfill.is_all)


def _check_columns(at: int, phase: Mapping[str, Any], found: Columns, wanted: Columns) -> None:
    """Refuse a phase whose columns do not fit those of the topic."""
    said = [text for _, text in mismatches(found, wanted, phase["type"])]
    if said:
        raise PlanRefused("phase-mismatch", f"{'; '.join(said)}: {describe_phase(at, phase)}", hint=MISMATCH_HINT)
