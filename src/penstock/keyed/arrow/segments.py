"""Segments of rows that are sorted by key."""

import numpy as np

from penstock.keyed.arrow.arrays import Flags, Ints


def first_flags(keys: Ints) -> Flags:
    """Mask the first row of each key."""
    flags = np.ones(len(keys), bool)
    flags[1:] = keys[1:] != keys[:-1]
    return flags


def last_flags(keys: Ints) -> Flags:
    """Mask the last row of each key."""
    return np.append(first_flags(keys)[1:], True)[: len(keys)]


def stretch_starts(first: Flags) -> Ints:
    """Return for each row the index of the first row of its segment. `first` marks the rows that begin one."""
    return np.asarray(np.flatnonzero(first)[np.cumsum(first) - 1])


def stretch_ends(first: Flags) -> Ints:
    """Return for each row the index after the last row of its segment."""
    return np.asarray(np.append(np.flatnonzero(first), len(first))[np.cumsum(first)])


def places_within(keys: Ints) -> Ints:
    """Return the position of each row within the rows of its key, from 0."""
    return np.arange(len(keys)) - stretch_starts(first_flags(keys))


def survivors(pairs: Ints, size: int, there: int, old: int, arrival: Ints) -> Ints:
    """Return the indexes of the first `there` rows that remain after each later row has removed an equal one.

    New rows, which follow the first `old`, go before old ones: a row added and retracted in one batch leaves no trace.
    """
    takes = np.bincount(pairs[there:], minlength=size)
    order = np.lexsort((arrival, np.arange(there) < old, pairs[:there]))
    sorted_pairs = pairs[:there][order]
    return np.sort(order[places_within(sorted_pairs) >= takes[sorted_pairs]])
