"""Waiting for what was done to be seen."""

import time
from collections.abc import Callable


def wait_until(seen: Callable[[], bool], seconds: float) -> None:
    """Services say that something is done a moment before they show it. After some time nobody waits any more."""
    ends = time.monotonic() + seconds
    while not seen() and time.monotonic() < ends:
        time.sleep(0.05)
