"""Delivers rows to one output: rules, sink, bisection, dead letters. The stream and `errors replay` share it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import DataFrame

from penstock.config import OnError
from penstock.errors import QueryFailed
from penstock.row_columns import ORDER
from penstock.runtime.dead_letters import rows as dead_letter_rows
from penstock.runtime.delivery.bisect import Faults, find_faults, find_joint_faults
from penstock.runtime.delivery.fan_out import split_streams
from penstock.runtime.delivery.rejections import Faulty, OutputRejection, Refused, RuleBroken, count_label
from penstock.runtime.delivery.trial_run import TrialRun
from penstock.runtime.query import row_rules
from penstock.runtime.query.provenance import PLACE
from penstock.runtime.query.row_guards import MESSAGE
from penstock.runtime.spark.errors import is_row_error

StoreDeadLetters: TypeAlias = Callable[[OutputRejection, DataFrame], None]


@dataclass(frozen=True, slots=True)
class Delivered:
    """How many rows of a batch were delivered to an output, and how many were rejected, by `count_label`."""

    written: int
    rejected: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class OutputDelivery:
    """Delivers rows to one output.

    `deliver` splits off rows that break a rule, hands the others to the sink, and stores dead letters of the first. If
    it raises a row error, nothing is counted, and the sink gets the batch again under the same `BatchRef`.

    `deliver_isolated` takes rows of the inputs instead. It finds those that fail, stores them as dead letters *before*
    the others are delivered (once the sink has the batch, nobody searches for them again), and delivers the rest.

    With `compute_first`, the output is computed before the first row is written, and a sink that could write rows twice
    tries them first, so that an attempt that fails leaves nothing behind: a replay is not retried automatically.
    """

    trial: TrialRun
    on_error: OnError
    store: StoreDeadLetters
    compute_first: bool = False

    def deliver(self, rows: DataFrame, records: Callable[[], DataFrame | None]) -> Delivered:
        """Write rows that are ready for the sink. `records` reads the input rows that they are made from; it returns
        None if dead letters should be about the rows themselves."""
        output = self.trial.output
        if not output.rules and not self.compute_first:
            return self._write(rows)
        rows = row_rules.mark_broken_rules(rows, output.rules).persist()
        try:
            broken = row_rules.breaking_rows(rows).count()
            if broken and self.on_error == "stop":
                raise row_rules.rule_failure(rows, output)
            if self.compute_first and self.trial.sink.capabilities.duplicates:
                self.trial.sink.trial(row_rules.passing_rows(rows), self.trial.ref)
            done = self._write(row_rules.passing_rows(rows))
            if broken and self.on_error == "dead_letter":
                self._store_rule_breaks(rows, records, broken)
            return Delivered(done.written, done.rejected + Counter({count_label(RuleBroken(output)): broken}))
        finally:
            rows.unpersist()

    def deliver_isolated(self, rows: DataFrame) -> Delivered:
        """Write rows of the inputs without those that fail, alone or together with rows before them."""
        faults = find_faults(rows, self.trial)
        try:
            self._store_faults(faults, joint=False)
            try:
                done = self._deliver_passing(faults)
            except QueryFailed as error:
                if not is_row_error(error):
                    raise
                joint = find_joint_faults(faults, self.trial)
                self._store_faults(Faults(faults.numbered, few=joint), joint=True)
                faults = faults.with_faults(joint)
                done = self._deliver_passing(faults)
            label = count_label(Faulty(self.trial.output))
            return Delivered(done.written, done.rejected + Counter({label: len(faults)}))
        finally:
            faults.close()

    def _deliver_passing(self, faults: Faults) -> Delivered:
        rows = faults.passing_rows.drop(PLACE)
        return self.deliver(self.trial.compute_output(rows), lambda: rows)

    def _write(self, rows: DataFrame) -> Delivered:
        """Hand rows to the sink, which writes them under its ledger, and store dead letters of those it rejects."""
        refused = Refused(self.trial.output)

        def store_rejected(rejected: DataFrame) -> None:
            self.store(refused, dead_letter_rows.rejected_rows(rejected, refused.output.node))

        result = self.trial.sink.write(rows, self.trial.ref, store_rejected)
        return Delivered(result.rows, Counter({count_label(refused): result.refused}))

    def _store_rule_breaks(self, rows: DataFrame, records: Callable[[], DataFrame | None], broken: int) -> None:
        """Store dead letters about records if each row is made from one, else about the rows themselves.

        A record must break the rule also when its row is computed again, so both counts must be equal.
        """
        trial, output = self.trial, self.trial.output
        entry = trial.query.streams[0]
        read = records()
        made = None if read is None else trial.frames.rows_with_records(trial.query, output.view, entry, read)
        if made is not None:
            found = row_rules.breaking_rows(row_rules.mark_broken_rules(made, output.rules)).persist()
            try:
                if found.count() == broken:
                    self.store(RuleBroken(output), dead_letter_rows.rule_breaking_records(found, entry, output.node))
                    return
            finally:
                found.unpersist()
        dead_letters = dead_letter_rows.rule_breaking_rows(row_rules.breaking_rows(rows), output.node)
        self.store(RuleBroken(output), dead_letters)

    def _store_faults(self, faults: Faults, *, joint: bool) -> None:
        if self.on_error != "dead_letter" or not faults:
            return
        output, inputs = self.trial.output, self.trial.query.streams
        failing = split_streams(faults.failing_rows, [entry.view for entry in inputs], MESSAGE)
        for entry in inputs:
            dead_letters = dead_letter_rows.failing_rows(failing[entry.view].drop(*ORDER), entry, output.node)
            self.store(Faulty(output, None if len(inputs) == 1 else entry.view, joint), dead_letters)
