"""Decodes values from PostgreSQL's text format into Arrow columns, and maps its types to Spark's."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ServiceError

_SAME: Final = {
    "boolean": "BOOLEAN",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "oid": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "date": "DATE",
    "bytea": "BINARY",
}
_NUMERIC: Final = re.compile(r"numeric\((\d+),(\d+)\)")
_TIME: Final = re.compile(r"timestamp(\(\d\))? with(out)? time zone")
_MOST_DIGITS: Final = 38
_INTRICATE: Final = r'["\\\[]|.\{'
"""Matches arrays with quotes, bounds, or nested arrays. All others can be split at their commas."""
_ELEMENT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,]+)')
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def spark_type(spoken: str) -> str:
    """Return the Spark type for a type, as `format_type` names it. A type without an equivalent becomes text.

    A `numeric` without digits, or with more than Spark supports, becomes text too, so that no digit is lost.
    """
    if spoken.endswith("[]"):
        return f"ARRAY<{spark_type(spoken[:-2])}>"
    if found := _NUMERIC.fullmatch(spoken):
        digits, scale = int(found[1]), int(found[2])
        return f"DECIMAL({digits}, {scale})" if scale <= digits <= _MOST_DIGITS else "STRING"
    return "TIMESTAMP" if _TIME.fullmatch(spoken) else _SAME.get(spoken, "STRING")


def decode_column(name: str, spoken: str, texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decode the text values of a column. ServiceError for a value that the Spark type cannot represent."""
    try:
        return _convert_texts(texts, kind)
    except (pa.ArrowInvalid, ValueError):
        found = next(_failing(texts, kind), "?")
        text = f"column `{name}` has the value `{found}`, which is no {spoken} of Spark"
        raise ServiceError("value-unsupported", text, hint=f"`as_text: [{name}]` reads the column as text") from None


def _failing(texts: pa.Array, kind: pa.DataType) -> Iterator[str]:
    for at in range(len(texts)):
        try:
            _convert_texts(texts[at : at + 1], kind)
        except (pa.ArrowInvalid, ValueError):
            yield texts[at].as_py().decode(errors="replace")[:80]


def _convert_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pc.equal(texts, pa.scalar(b"t", texts.type))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _bytes(texts).cast(kind)
    if pa.types.is_list(kind):
        return _lists(texts.cast(pa.string()), kind)
    plain = texts.cast(pa.string())
    if pa.types.is_timestamp(kind):
        has_zone = pc.any(pc.ends_with(plain, "+00")).as_py()  # without one, they are taken as UTC
        return plain.cast(pa.timestamp("us", "UTC") if has_zone else pa.timestamp("us")).cast(kind)
    return plain if kind == pa.string() else plain.cast(kind)


_HALVES: Final = np.zeros(256, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _HALVES[_digit] = int(chr(_digit), 16)


def _bytes(texts: pa.Array) -> pa.Array:
    r"""Decode text that is `\x` and two digits per byte."""
    texts = pa.concat_arrays([texts])
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return pa.nulls(len(texts), pa.binary())
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    written = np.frombuffer(data, np.uint8)[places[0] : places[-1]]
    lengths = np.diff(places)
    begins = (places[:-1] - places[0])[lengths > 0]
    digits = np.ones(len(written), bool)
    digits[begins] = digits[begins + 1] = False
    halves = _HALVES[written[digits]]
    ends = np.concatenate([[0], np.cumsum(np.maximum(lengths - 2, 0) // 2)]).astype(np.int32)
    decoded = (halves[0::2] << 4) | halves[1::2]
    valid = None if not texts.null_count else pc.is_valid(texts).buffers()[1]
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(decoded))]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers)


def _lists(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    intricate = pc.any(pc.match_substring_regex(texts, _INTRICATE)).as_py()
    cut: Callable[[pa.Array], tuple[pa.Array, pa.Array]] = _parse_arrays if intricate else _split_arrays
    counts, elements = cut(texts)
    ends = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    values = _convert_texts(elements.cast(pa.binary()), kind.value_type)
    return pa.ListArray.from_arrays(ends, values, mask=pc.is_null(texts)).cast(kind)


def _split_arrays(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the number of elements of each array, and the elements of all arrays as one column."""
    inner = pc.utf8_slice_codeunits(pc.fill_null(texts, "{}"), 1, -1)
    parts = pc.split_pattern(inner, ",")
    counts = pc.subtract(pc.list_value_length(parts), pc.equal(inner, "").cast(pa.int32()))
    flat = parts.flatten()
    flat = flat.filter(pc.not_equal(flat, ""))
    return counts, pc.if_else(pc.equal(flat, "NULL"), pa.scalar(None, pa.string()), flat)


def _parse_arrays(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Parse arrays that cannot be split at their commas, with the same result as `_split_arrays`."""
    lists = [_elements(text) for text in texts.to_pylist()]
    flat = [element for elements in lists for element in elements]
    return pa.array([len(elements) for elements in lists], pa.int32()), pa.array(flat, pa.string())


def _elements(text: str | None) -> list[str | None]:
    if text is None:
        return []
    inner = text.partition("={")[2][:-1] if text.startswith("[") else text[1:-1]
    found = list(_ELEMENT.finditer(inner))
    if any(part[2] is not None and "{" in part[2] for part in found):
        raise ValueError("an array of arrays")
    return [_unescape_element(part) for part in found]


def _unescape_element(part: re.Match[str]) -> str | None:
    if part[2] is not None:
        return None if part[2] == "NULL" else part[2]
    return _ESCAPED.sub(r"\1", part[1])
