"""Determines why a query ended, as one of our own errors if possible."""

from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.runtime.run.launch import LiveQuery
from penstock.runtime.spark.errors import failure_of, is_lost_records_error, is_write_error


def query_failure(live: LiveQuery, error: Exception, check_positions: Callable[[], None]) -> PenstockError:
    """Return the failure of a query that ended with an error. `check_positions` raises if records are gone."""
    if is_lost_records_error(error):
        try:
            check_positions()
        except PenstockError as lost:
            return lost
    if live.failures:
        return live.failures[0]
    failure = error if isinstance(error, PenstockError) else failure_of(error)
    if is_write_error(error):
        kind, _, name = live.spec.outputs[0].node.partition(".")
        failure.with_context(f"a batch was not written to {kind} `{name}`", node=name)
    return failure
