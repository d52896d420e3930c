"""Types of ClickHouse and of Arrow: which column a type gets, and how values are fitted into a column that is there.

ClickHouse itself takes almost anything, in silence: numbers wrap around, fractions are cut, nulls become zeros, text
that is no number becomes null. So values are converted here, where a loss is an error.
"""

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.clients.clickhouse.client import quote_identifier

_SIMPLE: Final = {
    pa.bool_(): "UInt8",
    **{getattr(pa, f"int{bits}")(): f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): f"UInt{bits}" for bits in (8, 16, 32, 64)},
    pa.float16(): "Float32",
    pa.float32(): "Float32",
    pa.float64(): "Float64",
    pa.string(): "String",
    pa.large_string(): "String",
    pa.binary(): "String",
    pa.large_binary(): "String",
    pa.date32(): "Date32",
    pa.null(): "String",
}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_UNITS: Final = {digits: unit for unit, digits in _DIGITS.items()}
_FIRST_SECOND: Final = -2_208_988_800
_LAST_SECOND: Final = 10_413_791_999
"""What DateTime64 holds: the years 1900 to 2299. The server would take something else in silence."""
_NUMBERS: Final = {text: arrow for arrow, text in _SIMPLE.items() if pa.types.is_integer(arrow)}
WIDE: Final = {f"{word}{bits}": (word, bits) for word in ("Int", "UInt") for bits in (128, 256)}
_BY_SERVER: Final = frozenset(("Enum8", "Enum16", "IPv4", "IPv6", "JSON"))
"""Made of text by the server, which says so when it cannot, unless the column is Nullable."""
_UUID: Final = "^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$"
_BLANK: Final = {"UUID": f"{'0' * 8}-0000-0000-0000-{'0' * 12}", "IPv4": "0.0.0.0", "IPv6": "::", "JSON": "{}"}
_FIRST_WORD: Final = re.compile(r"Enum\d+\('((?:[^'\\]|\\.)*)'")
COLLECTIONS: Final = frozenset(("Array", "Map", "Tuple"))
"""They cannot be Nullable: where there is none, ClickHouse has an empty one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of ClickHouse, without what is only about how it is kept."""

    word: str
    inner: tuple["Kind", ...] = ()
    numbers: tuple[int, ...] = ()
    nullable: bool = False
    names: tuple[str, ...] = ()


def column_type(arrow: pa.DataType, *, nullable: bool = True) -> str | None:
    """The type of a column for such values; None where ClickHouse has none."""
    text = _SIMPLE.get(arrow)
    if pa.types.is_timestamp(arrow):
        text = f"DateTime64({_DIGITS[arrow.unit]}, 'UTC')"
    elif pa.types.is_decimal(arrow):
        text = f"Decimal({arrow.precision}, {arrow.scale})"
    elif pa.types.is_fixed_size_binary(arrow):
        text = f"FixedString({arrow.byte_width})"
    elif pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        inner = column_type(arrow.value_type)
        return None if inner is None else f"Array({inner})"
    elif pa.types.is_map(arrow):
        key, item = column_type(arrow.key_type, nullable=False), column_type(arrow.item_type)
        return None if key is None or item is None else f"Map({key}, {item})"
    elif pa.types.is_struct(arrow):
        fields = [(field.name, column_type(field.type)) for field in arrow]
        return (
            None
            if any(t is None for _, t in fields)
            else f"Tuple({', '.join(f'{quote_identifier(n)} {t}' for n, t in fields)})"
        )
    return text if text is None or not nullable else f"Nullable({text})"


def kind_of(text: str) -> Kind:
    """A type as ClickHouse writes it."""
    word, _, rest = text.strip().partition("(")
    arguments = _split(rest.rpartition(")")[0]) if rest else []
    match word:
        case "Nullable":
            inner = kind_of(arguments[0])
            return Kind(inner.word, inner.inner, inner.numbers, True, inner.names)
        case "LowCardinality":
            return kind_of(arguments[0])
        case "SimpleAggregateFunction":
            return kind_of(arguments[1])
        case "Array" | "Map":
            return Kind(word, tuple(map(kind_of, arguments)))
        case "Tuple":
            named = [_split_label(argument) for argument in arguments]
            return Kind(word, tuple(kind_of(kind) for _, kind in named), names=tuple(label for label, _ in named))
    return Kind(word, numbers=tuple(int(a) for a in arguments if re.fullmatch(r"\d+", a)))


def _split(text: str) -> list[str]:
    """Arguments between commas, of which those inside of brackets and quotes do not count."""
    parts, depth, quote, begun, place = [], 0, "", 0, 0
    while place < len(text):
        letter = text[place]
        if quote:
            place += letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "'`":
            quote = letter
        elif letter == "," and depth == 0:
            parts.append(text[begun:place].strip())
            begun = place + 1
        else:
            depth += (letter == "(") - (letter == ")")
        place += 1
    return [*parts, text[begun:].strip()]


_LABEL: Final = re.compile(r"(?:`((?:[^`\\]|\\.)*)`|(\w+))\s+(\w.*)", re.DOTALL)


def _split_label(text: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(text)
    if found is None:
        return "", text
    return re.sub(r"\\(.)", r"\1", found[1]) if found[1] is not None else found[2], found[3]


def target_type(arrow: pa.DataType, kind: Kind) -> pa.DataType | None:
    """The type of Arrow that values are converted to before they go into a column; None where they cannot."""
    t, word = pa.types, kind.word
    if t.is_null(arrow):
        return pa.null()
    if t.is_list(arrow) or t.is_large_list(arrow):
        inner = target_type(arrow.value_type, kind.inner[0]) if word == "Array" else None
        return None if inner is None else pa.list_(inner)
    if t.is_map(arrow):
        if word != "Map":
            return None
        both = [target_type(a, k) for a, k in zip((arrow.key_type, arrow.item_type), kind.inner, strict=True)]
        return None if None in both else pa.map_(*both)
    if t.is_struct(arrow):
        return _struct(arrow, kind)
    if t.is_boolean(arrow):
        return arrow if word == "Bool" or word in _NUMBERS else None
    if t.is_integer(arrow):
        if word == "DateTime":
            return pa.uint32()
        if word == "DateTime64":
            unit = _UNITS.get(kind.numbers[0] if kind.numbers else 3)
            return None if unit is None else pa.timestamp(unit, "UTC")
        if word in WIDE:
            return arrow if WIDE[word][0] == "Int" else pa.uint64()
        return _NUMBERS.get(word) or _fraction(kind)
    if t.is_decimal(arrow):
        if word in WIDE:
            return pa.decimal256(76, 0)
        return _NUMBERS.get(word) or _fraction(kind)
    if t.is_floating(arrow):
        return _fraction(kind) if word.startswith("Float") else None
    if t.is_date(arrow):
        return arrow if word in ("Date", "Date32") else None
    if t.is_timestamp(arrow):
        if word not in ("DateTime", "DateTime64"):
            return None
        return pa.timestamp("ns", arrow.tz) if word == "DateTime64" and kind.numbers[:1] > (6,) else arrow
    if t.is_string(arrow) or t.is_large_string(arrow):
        known = word in ("String", "FixedString", "UUID") or word in WIDE or (word in _BY_SERVER and not kind.nullable)
        return arrow if known else _decimal(kind)
    return arrow if word in ("String", "FixedString") else None


def blank_text(text: str) -> str:
    """What stands for nothing in texts that the server makes values of this type of: its own default does not do."""
    if word := _FIRST_WORD.search(text):
        return re.sub(r"\\(.)", r"\1", word[1])
    kind = kind_of(text).word
    return "0" if kind in WIDE else _BLANK.get(kind, "")


def literals(values: pa.Array, kind: Kind) -> list[str]:
    """Values of a column of this kind, none of them null, in SQL that means the same as what is inserted.

    ClickHouse takes quoted text for a value of the column that it is compared with. Only a time would then be one of
    the column's, or the server's, time zone.
    """
    if pa.types.is_timestamp(values.type):
        column = kind.word if kind.word == "DateTime" else f"DateTime64({kind.numbers[0]})"
        micros = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
        return [f"CAST(fromUnixTimestamp64Micro(toInt64({micro})) AS {column})" for micro in micros.to_pylist()]
    if kind.word == "DateTime":
        return [f"toDateTime({second})" for second in values.to_pylist()]
    text = values.cast(pa.uint8() if pa.types.is_boolean(values.type) else values.type).cast(pa.string())
    escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), "'", "\\'")
    quoted: list[str] = pc.binary_join_element_wise("'", escaped, "'", "").to_pylist()
    return quoted


def _struct(arrow: pa.DataType, kind: Kind) -> pa.DataType | None:
    if kind.word != "Tuple" or kind.names != tuple(field.name for field in arrow):
        return None
    inner = [target_type(field.type, wanted) for field, wanted in zip(arrow, kind.inner, strict=True)]
    return None if None in inner else pa.struct(list(zip(kind.names, inner, strict=True)))


def _fraction(kind: Kind) -> pa.DataType | None:
    return {"Float32": pa.float32(), "Float64": pa.float64()}.get(kind.word) or _decimal(kind)


def _decimal(kind: Kind) -> pa.DataType | None:
    if kind.word != "Decimal":
        return None
    return (pa.decimal128 if kind.numbers[0] <= 38 else pa.decimal256)(*kind.numbers)


def convert_values(values: pa.Array, kind: Kind, wanted: pa.DataType) -> pa.Array:
    """The values as a column takes them. ValueError for one that would not stay what it is."""
    if _has_hidden_null(values, kind):
        raise ValueError("null in a column that is not Nullable")
    if values.null_count == len(values):
        return values
    if kind.word in WIDE or kind.word == "UUID":
        _check_text(values, kind)
    elif kind.word in ("Date", "DateTime"):
        _check_time(values, kind)
    if values.type == wanted:
        return values
    if pa.types.is_integer(values.type) and pa.types.is_timestamp(wanted):
        return _numbers_to_times(values, wanted)
    if pa.types.is_integer(values.type) and pa.types.is_decimal(wanted):
        values = values.cast(
            pa.decimal256(76, wanted.scale) if pa.types.is_decimal256(wanted) else pa.decimal128(38, wanted.scale)
        )
    found = values.cast(wanted, safe=not pa.types.is_floating(wanted) or pa.types.is_integer(values.type))
    if pa.types.is_floating(wanted) and pa.types.is_floating(values.type):
        _check_range(values, found)
    return found


def _numbers_to_times(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Whole numbers as times: they count what the column does, such as milliseconds since 1970 in DateTime64(3)."""
    counts, ticks = values.cast(pa.int64()), 10 ** _DIGITS[wanted.unit]
    first, last = max(_FIRST_SECOND * ticks, -(2**63)), min((_LAST_SECOND + 1) * ticks - 1, 2**63 - 1)
    wrong = counts.filter(pc.or_(pc.less(counts, first), pc.greater(counts, last)))
    if len(wrong):
        raise ValueError(f"{wrong[0].as_py()} {wanted.unit} since 1970 is no time that DateTime64 holds")
    return counts.cast(wanted)


def _check_range(values: pa.Array, found: pa.Array) -> None:
    """A fraction may lose digits in a shorter one, but not become infinite."""
    wrong = values.filter(pc.and_(pc.is_finite(values), pc.invert(pc.is_finite(found))))
    if len(wrong):
        raise ValueError(f"{wrong[0].as_py()!r} is too large")


def _has_hidden_null(values: pa.Array, kind: Kind) -> bool:
    """Whether something inside of a collection is null that cannot be; of columns themselves the table knows more."""
    if len(values) == 0 or not kind.inner:
        return False
    if kind.word == "Tuple":
        present = values.drop_null()
        inner = list(present.flatten())
    elif kind.word == "Map":
        inner = [values.keys, values.items]
    else:
        inner = [values.flatten()]
    return any(
        (part.null_count and not k.nullable and k.word not in COLLECTIONS) or _has_hidden_null(part, k)
        for part, k in zip(inner, kind.inner, strict=True)
    )


def _check_text(values: pa.Array, kind: Kind) -> None:
    if pa.types.is_decimal(values.type):
        if kind.word.startswith("UInt") and pc.any(pc.less(values, pa.scalar(0, values.type))).as_py():
            raise ValueError("a negative number in a column of unsigned ones")
        return
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return
    if kind.word == "UUID":
        sound = pc.match_substring_regex(values, _UUID)
    else:
        word, bits = WIDE[kind.word]
        sign = "-?" if word == "Int" else ""
        sound = pc.match_substring_regex(values, f"^{sign}[0-9]+$")
        limit = str(2 ** (bits - (word == "Int")) - (word == "UInt"))
        digits = pc.utf8_ltrim(pc.utf8_ltrim(values, "-"), "0")
        padded = pc.utf8_lpad(digits, len(limit), "0")
        inside = pc.less_equal(padded, limit) if word == "UInt" else _is_in_range(values, padded, limit)
        sound = pc.and_(sound, pc.and_(pc.less_equal(pc.utf8_length(digits), len(limit)), inside))
    wrong = pc.filter(values, pc.invert(pc.fill_null(sound, True)))
    if len(wrong):
        raise ValueError(f"{wrong[0].as_py()[:100]!r} is no {kind.word}")


def _is_in_range(values: pa.Array, padded: pa.Array, limit: str) -> pa.Array:
    """Whether signed numbers are in range: below zero there is one more."""
    return pc.or_(pc.less(padded, limit), pc.and_(pc.equal(padded, limit), pc.starts_with(values, "-")))


def _check_time(values: pa.Array, kind: Kind) -> None:
    if pa.types.is_integer(values.type):
        return
    days = pa.types.is_date(values.type)
    last = 65535 if days else (2**32) * 10 ** _DIGITS[values.type.unit] - 1
    numbers = values.cast(pa.int32() if days else pa.int64())
    if pc.min(numbers).as_py() < 0 or pc.max(numbers).as_py() > last:
        raise ValueError(f"a time that {kind.word} cannot hold")
