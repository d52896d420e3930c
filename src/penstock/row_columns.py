"""Names of the columns that rows carry besides those of the user, and of the function that dates a batch.

They are written into state, checkpoints and sinks: none of them may change.
"""

from typing import Final

OP: Final = "_gs_op"
"""Whether a row is an insert, an update or a delete: `i`, `u`, `d`."""
SIGN: Final = "_sign"
"""Whether a row comes (1) or goes (-1)."""
NOW: Final = "_now"
"""When the batch of a row began, in milliseconds: the same for all its rows, also when it is done again."""
WAS: Final = "_was"
"""What a change was where it was read: an insert, an update or a delete."""
CLOCK: Final = "penstock_now"
"""The SQL function that tells when a batch began; every session has it."""
ORDER: Final = ("_order_time", "_order_file", "_order_place", "_order_row")
"""Where a row stood in its input; sorting by these four gives the order of arrival."""
BEFORE: Final = "_before"
"""What the calls of an aggregate were before the change, as a struct."""
ERROR: Final = "_error"
"""A column of a source's rows: why a row could not be made, as a code; null if it could."""
ORIGIN: Final = "_origin"
"""A column of rows that are read again: where they came from, as a struct of topic, partition, offset, …, value."""
