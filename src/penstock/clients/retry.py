"""Waits for services: until a change is visible, or until an error that may pass has passed."""

import time
from collections.abc import Callable
from typing import TypeVar

from penstock.backoff import delay_secs
from penstock.errors import ServiceError

Response = TypeVar("Response")


def wait_until(is_visible: Callable[[], bool], within_secs: float) -> None:
    """Wait until a change is visible, at most for some seconds: services confirm a change before they show it."""
    ends = time.monotonic() + within_secs
    while not is_visible() and time.monotonic() < ends:
        time.sleep(0.05)


def retry(ask: Callable[[], Response], within_secs: float, *, passing: type[ServiceError] = ServiceError) -> Response:
    """Call until there is no retriable error of this class any more, or the time is up; then the error is raised."""
    ends, attempt = time.monotonic() + within_secs, 1
    while True:
        try:
            return ask()
        except passing as error:
            if not error.retriable or time.monotonic() > ends:
                raise
        time.sleep(delay_secs(attempt, longest_secs=0.5))
        attempt += 1
