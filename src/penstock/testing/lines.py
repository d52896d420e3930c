"""The contract of sinks, one sentence per line."""

from collections.abc import Mapping
from typing import Final

LINES: Final[Mapping[str, str]] = {
    "writes_every_row": "every row is written",
    "writes_every_type": "values of every type come back as they were",
    "keeps_nulls": "nulls stay nulls",
    "keeps_texts": "texts stay as they are, whatever is in them",
    "keeps_nan_and_infinity": "NaN and the infinities stay what they are",
    "keeps_every_digit": "numbers of 38 digits keep every digit",
    "a_nul_byte_is_kept_or_refused": "a NUL in a text is kept, or the row is refused",
    "an_empty_batch_leaves_nothing": "a batch without rows leaves nothing",
    "writes_many_rows": "10,000 rows are written",
    "a_replayed_batch_leaves_no_duplicates": "a batch that is done again changes nothing",
    "a_batch_of_the_same_number_from_other_input_is_refused": "a batch of the same number from other input is refused",
    "a_new_checkpoint_writes_again": "a new checkpoint begins anew",
    "a_batch_that_fails_half_way_is_done_again": "a batch that fails half way is done again, without a gap",
    "a_kill_before_the_commit_loses_nothing": "a kill between the write and the commit loses nothing",
    "a_service_that_starts_again_loses_nothing": "a service that starts again in the middle of a batch loses nothing",
    "a_service_that_is_silent_is_given_up": "a service that falls silent is given up, and may come back",
    "a_write_that_hangs_can_be_let_go": "a write that hangs can be cancelled",
}
"""The lines, by the check of `penstock.testing.contract` that tests them."""
OF_VALUES: Final = ("writes_every_type", "keeps_nulls", "keeps_texts", "keeps_nan_and_infinity", "keeps_every_digit")
"""Checks on the values of one batch: `changed_values` writes it, and reports on all of them."""
OF_A_PROCESS: Final = ("a_kill_before_the_commit_loses_nothing",)
"""Lines that need more than a sink: a run that is killed."""
