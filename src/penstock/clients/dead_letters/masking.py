"""Masking of dead letters and errors: they are kept without the values of masked and classified columns."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.clients.dead_letters.model import REFUSED, WITHHELD, DeadLetter
from penstock.clients.kafka.decode import FAULTS
from penstock.clients.masked_answers import WITHHELD_TEXT, mask_answer

MASK: Final = "***"
BY_PLACE: Final = "place"
"""The record is at its partition and offset in its topic."""
BY_DIGEST: Final = "sha256:"
"""The record is the row of its topic with this digest."""
NAMED: Final = r"^([^'\"]*?\[[A-Z][A-Z0-9_.]+\])"
"""An error text up to Spark's name for the error."""
OWN_WORDS: Final = r"^(?:it cannot be computed: |The message is [0-9]+ bytes when serialized )"
"""How our own texts about failing rows begin, and Kafka's about a record that is too large."""
ABOUT_ROWS: Final = frozenset({REFUSED, "row-failed"})
"""Codes of dead letters whose texts come from other systems, which may quote the row in any form."""
SCRUBBED: Final = (
    (r"(?s)'.*'", f"'{MASK}'"),
    (r'(?s)".*"', f'"{MASK}"'),
    (r"(?s)\{.*\}", f"{{{MASK}}}"),
    (r"(?s)=\(.*\)", f"=({MASK})"),
    (r"(?s)contains \(.*\)", f"contains ({MASK})"),
)
"""Where other systems quote values, from the first delimiter to the last: a value may contain delimiters."""
MISFIT: Final = r"(?s)^(`[^`]+`: )`.*`( is not a .*)$"
"""The text about a field that does not fit its column, around the value."""
_UNREAD: Final = r"(?s)^(.*? cannot (?:be read|take part): )(.*)$"
"""The text about a record that stops a query, before the reason."""


def mask_text(text: str) -> str:
    """Remove quoted values from an error text. The name of a Spark error is kept."""
    if (answer := mask_answer(text)) is not None:
        return answer
    if (found := re.match(NAMED, text)) is not None:
        return f"{found[1]} {WITHHELD_TEXT}"
    for pattern, cover in SCRUBBED:
        text = re.sub(pattern, cover, text)
    return text


def mask_reason(code: str, text: str, reasons: Mapping[str, str] = FAULTS) -> str:
    """Remove values from the reason of a dead letter. If the reason is one of ours, the name of the field is kept."""
    if code not in reasons:
        covered = mask_text(text)
        is_known = code not in ABOUT_ROWS or WITHHELD_TEXT in covered or re.match(OWN_WORDS, text)
        return covered if is_known else WITHHELD_TEXT
    before, reason = found.groups() if (found := re.match(_UNREAD, text)) else ("", text)
    misfit = re.match(MISFIT, reason)
    return before + (f"{misfit[1]}`{MASK}`{misfit[2]}" if misfit else reasons[code])


def mask_dead_letter(letter: DeadLetter, names: Collection[str]) -> DeadLetter:
    """Mask a dead letter; `names` are the masked columns, case-folded."""
    if not names or letter.about.get(WITHHELD) is not None:
        return letter
    value = mask_value(letter.value, names)
    message = mask_reason(letter.code, str(letter.about["message"] or ""))
    about = {**letter.about, "key": None, "value": value, "message": message}
    return replace(letter, about=about, key=None, value=None if value is None else value.encode(), headers=())


def mask_value(value: bytes | None, names: Collection[str]) -> str | None:
    """Mask fields of a JSON object at any depth; None if the text is not an object."""
    try:
        found = json.loads((value or b"").decode())
    except ValueError:
        return None
    return json.dumps(_mask_fields(found, names), ensure_ascii=False) if isinstance(found, dict) else None


def _mask_fields(value: Any, names: Collection[str]) -> Any:
    match value:
        case dict():
            inside = value.items()
            return {key: MASK if key.casefold() in names else _mask_fields(inner, names) for key, inner in inside}
        case list():
            return [_mask_fields(inner, names) for inner in value]
        case _:
            return value
