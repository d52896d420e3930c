"""Types of values in the configuration."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, LiteralString, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SecretStr,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class FrozenModel(BaseModel):
    """Base of everything that a user can write: immutable, and unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, protected_namespaces=(), allow_inf_nan=False
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return the value itself: it never changes, and pydantic copies the default of every element."""
        return self


def _refuse_boolean(value: object) -> object:
    """Refuse booleans where a number is needed: YAML reads `yes` as true, and Python takes true for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "a number is wanted")
    return value


def fold_case(value: object) -> object:
    """Convert a word to lower case."""
    return value.lower() if isinstance(value, str) else value


def check_name(name: str) -> str:
    """Check the name of an element."""
    if not name.isprintable():
        raise ValueError("a name is one line of printable characters")
    if name != name.strip():
        raise ValueError("a name does not begin or end with a space")
    return name


def refuse_crossed_bounds(value: BaseModel, *pairs: tuple[str, str]) -> None:
    """Refuse a lower bound above its upper bound. Pairs are names of fields."""
    for low, high in pairs:
        least, most = getattr(value, low), getattr(value, high)
        if least is not None and most is not None and least > most:
            context = {"low": low, "high": high, "least": f"{least:.15g}", "most": f"{most:.15g}"}
            context["hint"] = f"are they swapped? Write {low}: {context['most']}, {high}: {context['least']}"
            text = "`{low}` is {least}, above `{high}`, which is {most}: nothing can be between them"
            raise PydanticCustomError("crossed_bounds", text, context)


Whole = Annotated[int, BeforeValidator(_refuse_boolean)]
"""An integer, not a boolean."""
Number = Annotated[float, BeforeValidator(_refuse_boolean)]
"""A number, not a boolean."""


_SECOND: Final = 1_000_000_000
_DAY: Final = 86_400 * _SECOND
_NANOSECONDS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("ns", "nsec", "nanos"), 1),
    **dict.fromkeys(("us", "µs", "usec", "micros"), 1_000),
    **dict.fromkeys(("ms", "msec", "millis"), 1_000_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _SECOND),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * _SECOND),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600 * _SECOND),
    **dict.fromkeys(("d", "day", "days"), _DAY),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), 7 * _DAY),
    **dict.fromkeys(("M", "month", "months"), 2_630_016 * _SECOND),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), 31_557_600 * _SECOND),
}
"""The units of a duration. A month is 30.44 days, a year 365.25."""
_DURATION: Final = re.compile(r"(?:[0-9]+\s*[a-zA-Zµ]+\s*)+")
_PART: Final = re.compile(r"([0-9]+)\s*([a-zA-Zµ]+)")


def _parse_duration(value: object) -> object:
    """Return milliseconds. Less than a millisecond counts as one, so that a short time never becomes 0."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    parts = _PART.findall(text)
    if text != "0" and not (_DURATION.fullmatch(text) and all(unit in _NANOSECONDS for _, unit in parts)):
        raise ValueError("a duration looks like `500ms`, `5s`, `2min` or `1h 30m`")
    return -(-sum(int(count) * _NANOSECONDS[unit] for count, unit in parts) // 1_000_000)


def _duration_text(milliseconds: int) -> str:
    return f"{milliseconds}ms"


def describe_duration(milliseconds: int) -> str:
    """Return a duration in the largest unit that divides it: `1 day`, `90 minutes`."""
    for word in ("day", "hour", "minute", "second"):
        count, rest = divmod(milliseconds, _NANOSECONDS[word] // 1_000_000)
        if count and not rest:
            return f"{count:,} {word}{'' if count == 1 else 's'}"
    return f"{milliseconds:,} ms"


Duration = Annotated[
    int,
    BeforeValidator(_parse_duration, json_schema_input_type=str | int),
    PlainSerializer(_duration_text),
    Field(ge=0),
]
"""Milliseconds; written as `500ms`, `5s`, `2min`, `1h 30m`."""


def _parse_flush_interval(value: object) -> object:
    try:
        return _parse_duration(value)
    except ValueError as error:
        raise ValueError(f"invalid batch_flush_interval '{value}': {error}") from None


FlushInterval = Annotated[
    int,
    BeforeValidator(_parse_flush_interval, json_schema_input_type=str | int),
    PlainSerializer(_duration_text),
    Field(ge=0),
]
"""A duration whose errors name the field."""


UNKNOWN_WORD: Final = "unknown_word"
NODE: Final = "{node}"
"""A placeholder for the name of the node in a message."""


def unknown_word_error(text: LiteralString, given: object, words: Sequence[str]) -> PydanticCustomError:
    """Return an error for a word that is not in a list. `{given}`, `{words}` and NODE in the text are replaced."""
    return PydanticCustomError(UNKNOWN_WORD, text, {"given": str(given), "words": ", ".join(words)})


SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
"""The SSL mode of a connection to PostgreSQL."""


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A text that must match a pattern. `words` describes the pattern in messages."""

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check_text, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^{self.pattern}$"}

    def check_text(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(self.words)
        return text


def _split_names(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _join_names(names: tuple[str, ...]) -> str:
    return ",".join(names)


Names = Annotated[
    tuple[str, ...], BeforeValidator(_split_names, json_schema_input_type=str | list[str]), PlainSerializer(_join_names)
]
"""Column names, written as one text with commas."""


def refuse_duplicates(names: Iterable[str]) -> None:
    """Refuse columns that occur twice."""
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"the column `{name}` is there twice; names are not case-sensitive")
        seen.add(name.casefold())


def _check_key(names: tuple[str, ...]) -> tuple[str, ...]:
    refuse_duplicates(names)
    return names


Key = Annotated[Names, AfterValidator(_check_key)]
"""The columns of a key, each once."""


OnError: TypeAlias = Literal["dead_letter", "stop", "skip"]
"""What happens to a row that cannot be processed: it becomes a dead letter, stops the query, or is skipped."""


def reveal_secret(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


Secret = Annotated[SecretStr, PlainSerializer(reveal_secret, when_used="json")]
"""A text that is never shown: it is missing in documents for people and in logs. Only a connector's own document has
it."""
