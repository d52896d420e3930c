"""What joins share: the fields of their output, and the pairs of rows with equal keys."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.keyed.arrow.arrays import Ints
from penstock.keyed.operators import ChangeJoin, IntervalJoin, VersionJoin


def output_fields(operator: ChangeJoin | IntervalJoin | VersionJoin, schemas: Sequence[pa.Schema]) -> list[pa.Field]:
    """Return the fields of joined rows: the left columns, then the right ones, under their names in the output."""
    left = zip(operator.left_out, operator.left_columns, strict=True)
    right = zip(operator.right_out, operator.right_columns, strict=True)
    sides = zip(schemas, (left, right), strict=True)
    return [pa.field(out, schema.field(name).type) for schema, names in sides for out, name in names]


def matching_pairs(lefts: Ints, left_keys: Ints, rights: Ints, right_keys: Ints) -> tuple[Ints, Ints]:
    """Return every pair of a left and a right row with equal keys. `lefts` and `rights` are the rows to match."""
    order = rights[np.argsort(right_keys[rights], kind="stable")]
    sorted_keys = right_keys[order]
    begin = np.searchsorted(sorted_keys, left_keys[lefts], side="left")
    counts = np.searchsorted(sorted_keys, left_keys[lefts], side="right") - begin
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(lefts, counts), order[np.repeat(begin, counts) + steps]
