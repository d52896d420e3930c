"""Checks lookup tables for lines that cannot be decoded."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.clients.dead_letters.masking import mask_reason
from penstock.clients.kafka.decode import FAULTS
from penstock.connectors.contract import ERROR, ORIGIN
from penstock.errors import QueryFailed
from penstock.manifest.model import Input, QuerySpec
from penstock.runtime.query.decode_errors import count_rows
from penstock.runtime.query.inputs import QueryInput

_SHOWN: Final = 3


def check_tables(
    query: QuerySpec, inputs: Sequence[QueryInput], session: Callable[[], SparkSession], warn: Callable[[str], None]
) -> None:
    """Read the lookup tables of a query that are lines of text, and warn of undecodable lines or refuse them."""
    for each in inputs:
        entry = each.entry
        if entry.static and each.source.capabilities.has_records and entry.on_error != "skip":
            rows = each.reread(session(), None)
            if rows is not None and ERROR in rows.columns and (count := count_rows(rows).faults):
                _report_lines(entry, rows, count, warn, is_covered=bool(query.covers))


def _report_lines(entry: Input, rows: DataFrame, count: int, warn: Callable[[str], None], *, is_covered: bool) -> None:
    name = entry.node.partition(".")[2]
    bad = rows.where(f.col(ERROR).isNotNull()).select(f"{ORIGIN}.topic", f"{ORIGIN}.offset", ERROR)
    found = [(row["topic"], row["offset"], *row[ERROR].partition(": ")[::2]) for row in bad.take(_SHOWN)]
    reasons = []
    for file, line, code, why in found:
        reason = mask_reason(code, why or FAULTS[code]) if is_covered else why or FAULTS[code]
        reasons.append((code, f"{re.sub('^file:/+', '/', file)}:{line}: {reason}"))
    if entry.on_error == "stop":
        code, text = reasons[0]
        hint = "mend it, or set `on_error: dead_letter` on the table to skip such lines"
        raise QueryFailed(code, f"a line of the table `{name}` cannot be read: {text}", hint=hint)
    lines = "1 line" if count == 1 else f"{count:,} lines"
    more = f"; {count - _SHOWN:,} more" if count > _SHOWN else ""
    warn(f"{lines} of the table `{name}` cannot be read, and left out: {'; '.join(text for _, text in reasons)}{more}")
