"""Names of the columns that rows have in addition to those of the user, and of the function that returns the batch
time.

They are written into state, checkpoints and sinks, and must not change.
"""

from typing import Final

OP: Final = "_gs_op"
"""The operation of a row: insert `i`, update `u` or delete `d`."""
SIGN: Final = "_sign"
"""1 for a row that is added, -1 for a row that is removed."""
NOW: Final = "_now"
"""The start time of the row's batch in milliseconds. A replay has the same."""
WAS: Final = "_was"
"""The operation of a change where it was read."""
CLOCK: Final = "penstock_now"
"""The SQL function that returns the start time of the batch."""
ORDER: Final = ("_order_time", "_order_file", "_order_place", "_order_row")
"""The position of a row in its input. Sorting by these four gives the order of arrival."""
BEFORE: Final = "_before"
"""The values of aggregate calls before the change, as a struct."""
ERROR: Final = "_error"
"""Why a row of a source could not be decoded, as a code; null if it could."""
ORIGIN: Final = "_origin"
"""The position of a row that is read again, as a struct of topic, partition, offset, …, value."""
