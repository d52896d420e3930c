"""Types of ClickHouse and of Arrow: the column type for an Arrow type, and the Arrow type that a column takes."""

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

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
SECOND_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_UNITS: Final = {digits: unit for unit, digits in SECOND_DIGITS.items()}
_NUMBERS: Final = {text: arrow for arrow, text in _SIMPLE.items() if pa.types.is_integer(arrow)}
WIDE: Final = {f"{word}{bits}": (word, bits) for word in ("Int", "UInt") for bits in (128, 256)}
_BY_SERVER: Final = frozenset(("Enum8", "Enum16", "IPv4", "IPv6", "JSON"))
"""The server parses these from text and reports invalid text, unless the column is Nullable."""
_BLANK: Final = {"UUID": f"{'0' * 8}-0000-0000-0000-{'0' * 12}", "IPv4": "0.0.0.0", "IPv6": "::", "JSON": "{}"}
_FIRST_WORD: Final = re.compile(r"Enum\d+\('((?:[^'\\]|\\.)*)'")
COLLECTIONS: Final = frozenset(("Array", "Map", "Tuple"))
"""They cannot be Nullable: a null becomes an empty collection."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of ClickHouse, without how it is stored."""

    word: str
    inner: tuple["Kind", ...] = ()
    numbers: tuple[int, ...] = ()
    nullable: bool = False
    names: tuple[str, ...] = ()


def column_type(arrow: pa.DataType, *, nullable: bool = True) -> str | None:
    """Return the column type for a type of Arrow; None if ClickHouse has none."""
    text = _SIMPLE.get(arrow)
    if pa.types.is_timestamp(arrow):
        text = f"DateTime64({SECOND_DIGITS[arrow.unit]}, 'UTC')"
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
        fields = [(quote_identifier(field.name), column_type(field.type)) for field in arrow]
        inner = ", ".join(f"{name} {kind}" for name, kind in fields)
        return None if any(kind is None for _, kind in fields) else f"Tuple({inner})"
    return text if text is None or not nullable else f"Nullable({text})"


def kind_of(text: str) -> Kind:
    """Parse a type of ClickHouse."""
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
    """Split arguments at commas, except inside parentheses and quotes."""
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
    """Return the Arrow type that values are converted to for a column; None if they cannot be."""
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
    """Return the text for a null that the server can parse as this type."""
    if word := _FIRST_WORD.search(text):
        return re.sub(r"\\(.)", r"\1", word[1])
    kind = kind_of(text).word
    return "0" if kind in WIDE else _BLANK.get(kind, "")


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
