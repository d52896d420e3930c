"""How long to wait before a retry. Pure: callers bring the attempt and the chance, and do the waiting."""

from typing import Final

FIRST_SECS: Final = 0.1
LONGEST_SECS: Final = 30.0


def delay_secs(
    attempt: int, *, first_secs: float = FIRST_SECS, longest_secs: float = LONGEST_SECS, jitter: float = 0.0
) -> float:
    """Return the wait before a retry; the first attempt is 1. The wait doubles with each attempt, up to the longest.

    `jitter`, a random number from 0 to 1, takes up to half of the wait away, so that clients do not retry in step.
    """
    return min(first_secs * 2.0 ** min(attempt - 1, 30), longest_secs) * (1 - jitter / 2)
