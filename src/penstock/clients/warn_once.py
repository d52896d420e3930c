"""What whoever runs a pipeline should know, though it goes on: told once, where errors are told."""

import sys
from functools import cache


@cache
def warn_once(text: str) -> None:
    """Tell it, unless this process has."""
    print(f"Warning: {text}", file=sys.stderr, flush=True)
