"""Warnings on stderr, once per process."""

import sys
from functools import cache


@cache
def warn_once(text: str) -> None:
    """Print a warning, unless this process has printed it before."""
    print(f"Warning: {text}", file=sys.stderr, flush=True)
