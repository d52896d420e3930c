"""Answers of databases and HTTP endpoints without parts that may quote a row.

Such texts may have values anywhere: a trigger raises any text, an endpoint returns the row. So only known parts are
kept: states, codes, and names of constraints, columns and types. The patterns are used by Python and by Spark.
"""

import os
import re
from typing import Final

IN_WORKERS: Final = "PENSTOCK_COVERED_LOG"
"""A variable of Spark's Python workers: their log may show no values."""
WITHHELD_TEXT: Final = "(its text is withheld: it may quote masked or classified columns)"
_BEFORE: Final = (
    r"(?:the rows of a batch that fail cannot be told from the others; [0-9,]+ were found: "
    r"|more than [0-9,]+ rows of a part of the batch are refused: )?"
)
_POSTGRES_SAYS: Final = "|".join(
    (
        r'duplicate key value violates unique constraint "[^"]+"',
        r'conflicting key value violates exclusion constraint "[^"]+"',
        r'new row for relation "[^"]+" violates check constraint "[^"]+"',
        r'null value in column "[^"]+" of relation "[^"]+" violates not-null constraint',
        r'insert or update on table "[^"]+" violates foreign key constraint "[^"]+"',
        r'value for domain \S+ violates check constraint "[^"]+"',
        r'no partition of relation "[^"]+" found for row',
        r"value too long for type [a-z ]+\([0-9]+\)",
        r"invalid input syntax for type [a-z ]+",
        r"malformed (?:array|record|range) literal",
        r"(?:smallint|integer|bigint|real|double precision|numeric|date|timestamp|interval) out of range",
        r"numeric field overflow",
        r'invalid byte sequence for encoding "[A-Z0-9]+"',
        r"unsupported Unicode escape sequence",
    )
)
ANSWERS: Final = (
    rf"(?s)^({_BEFORE}PostgreSQL at .*? does not take a row:)( (?:{_POSTGRES_SAYS}))?().*$",
    r"(?s)^(PostgreSQL at .*?:)()() .*; (?:PL/\w+ function|SQL function|SQL statement|COPY) .*$",
    rf"(?s)^({_BEFORE}ClickHouse at \S+ (?:does not take a row|says [0-9]+):)"
    r"( Code: [0-9]+\.(?: DB::Exception: Constraint `[^`]+` for table [\w.]+)?)?"
    r".*?( \([A-Z0-9_]+\))?(?: \(version .*\))?$",
    rf"(?s)^({_BEFORE}column `[^`]+` of table `[^`]+` is [^:]+:)()().*$",
    r"(?s)^(https?://\S+ answered [0-9]+)().*?( \([0-9,]+ rows of `[^`]+`\))?$",
)
"""Texts that may quote a row. Three groups of each are kept."""


def mask_answer(text: str) -> str | None:
    """Return an answer without parts that may quote a row; None if it is not an answer."""
    said = text.removesuffix(f" {WITHHELD_TEXT}")
    found = next((found for pattern in ANSWERS if (found := re.match(pattern, said))), None)
    return None if found is None else f"{''.join(filter(None, found.groups()))} {WITHHELD_TEXT}"


def mask_in_worker(text: str) -> str:
    """Return what a Python worker of Spark may print."""
    return (mask_answer(text) or text) if os.environ.get(IN_WORKERS) else text
