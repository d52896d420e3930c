"""Masks dead letters: they are stored without the values of masked and classified columns.

The record stays in its source, and the dead letter holds its location: `errors replay` reads it there.
"""

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.batch import BatchRef
from penstock.clients.dead_letters import masking
from penstock.clients.dead_letters.model import GONE, REFUSED, RULE_FAILED, UNREAD, WITHHELD
from penstock.clients.masked_answers import ANSWERS, WITHHELD_TEXT, mask_answer
from penstock.errors import PenstockError
from penstock.manifest.model import QuerySpec
from penstock.runtime.dead_letters.rows import REASONS
from penstock.runtime.dead_letters.store import DeadLetterStore
from penstock.spark_internals.expressions import try_column

_WITHOUT_RECORD: Final = (REFUSED, UNREAD, GONE)
_QUOTING: Final = frozenset({"query-failed", "rows-refused", "file-unreadable", *REASONS})
"""Codes of failures whose messages may quote values."""
_ANSWERING: Final = frozenset(
    {"http-refused", "http-failed", "clickhouse-failed", "database-refused", "unreachable", "field-mismatch"}
)
"""Codes of failures whose messages may contain another system's answer about a row."""
_VARIANTS: Final = "MAP<STRING, VARIANT>"


class MaskedDeadLetters:
    """Stores dead letters of a query with masked columns, without their values."""

    def __init__(self, store: DeadLetterStore, names: Sequence[str]) -> None:
        self._store = store
        self._names = names

    def write(self, node: str, dead_letters: DataFrame, ref: BatchRef) -> int:
        return self._store.write(node, mask_dead_letters(dead_letters, self._names), ref)


def dead_letter_store(query: QuerySpec, store: DeadLetterStore) -> DeadLetterStore:
    """Return the dead-letter store of a query, which masks columns if needed."""
    return MaskedDeadLetters(store, query.covers) if query.covers else store


def mask_failure(query: QuerySpec, failure: PenstockError) -> PenstockError:
    """Remove the values of masked columns from the failure of a query."""
    if query.covers and failure.code in _ANSWERING and (answer := mask_answer(failure.message)) is not None:
        failure.message = answer
    elif query.covers and failure.code in _QUOTING:
        covered = masking.mask_reason(failure.code, failure.message, REASONS)
        failure.message = covered if not failure.internal else _strip_text(covered)
        failure.context = [masking.mask_text(text) if "[" in text else text for text in failure.context]
    return failure


def _strip_text(text: str) -> str:
    """Keep only the class of an unexpected error."""
    found = re.match(r"(\w+): ", text)
    named = text if text.endswith(WITHHELD_TEXT) else WITHHELD_TEXT
    return f"{found[1]}: {WITHHELD_TEXT}" if found else named


def mask_dead_letters(dead_letters: DataFrame, names: Sequence[str]) -> DataFrame:
    """Remove the values of these columns (case-folded names), and texts that cannot be searched for them."""
    text = f.col("value").cast("string")
    return dead_letters.drop("headers").withColumns(
        {
            WITHHELD: _record_location(),
            "key": f.lit(None).cast(dead_letters.schema["key"].dataType),
            "value": _mask_values(text, names).cast(dead_letters.schema["value"].dataType),
            "message": _mask_message(),
        }
    )


def _mask_values(text: Column, names: Sequence[str]) -> Column:
    """Mask the values in a JSON object; null if it is no object, or if a name occurs below its top level."""
    cover = f.parse_json(f.lit(f'"{masking.MASK}"'))
    fields = try_column(f.from_json(text, _VARIANTS))
    masked = f.transform_values(fields, lambda key, value: f.when(f.lower(key).isin(*names), cover).otherwise(value))
    shown = f.to_json(masked)
    listed = "|".join(_escape_regex(name) for name in names)
    deeper = shown.rlike(rf'(?i)"({listed})"\s*:\s*(?!"\*\*\*")')
    return f.when(~deeper, shown)


def _escape_regex(name: str) -> str:
    return "".join(char if char.isalnum() else f"\\u{ord(char):04x}" for char in name)


def _record_location() -> Column:
    """Return where the record can be found again, if the dead letter is about a record."""
    by_digest = f.concat(f.lit(masking.BY_DIGEST), f.sha2(f.col("value").cast("binary"), 256))
    about_row = f.col("code").isin(*_WITHOUT_RECORD) | ((f.col("code") == RULE_FAILED) & f.col("offset").isNull())
    return f.when(~about_row, f.when(f.col("partition").isNotNull(), f.lit(masking.BY_PLACE)).otherwise(by_digest))


def _mask_message() -> Column:
    """Return our own reason for a code, or the text of another system without values."""
    known = f.create_map(*(f.lit(part) for pair in REASONS.items() for part in pair))
    scrubbed = f.col("message")
    for pattern, cover in masking.SCRUBBED:
        scrubbed = f.regexp_replace(scrubbed, pattern, cover.replace("$", "\\$"))
    named = f.regexp_extract("message", masking.NAMED, 1)
    is_foreign = f.col("code").isin(*masking.ABOUT_ROWS) & ~f.col("message").rlike(masking.OWN_WORDS)
    quoted = (
        f.when(named != "", f.concat_ws(" ", named, f.lit(WITHHELD_TEXT)))
        .when(is_foreign, f.lit(WITHHELD_TEXT))
        .otherwise(scrubbed)
    )
    for pattern in reversed(ANSWERS):
        answer = f.concat(*(f.regexp_extract("message", pattern, number) for number in (1, 2, 3)))
        quoted = f.when(answer != "", f.concat_ws(" ", answer, f.lit(WITHHELD_TEXT))).otherwise(quoted)
    misfit = [f.regexp_extract("message", masking.MISFIT, number) for number in (1, 2)]
    masked_misfit = f.concat(misfit[0], f.lit(f"`{masking.MASK}`"), misfit[1])
    own = (
        f.when(f.col("code") == RULE_FAILED, f.col("message"))
        .when(f.col("code").isin(*REASONS) & (misfit[0] != ""), masked_misfit)
        .otherwise(f.try_element_at(known, f.col("code")))
    )
    return f.coalesce(own, quoted)
