"""What every configurable value is made of."""

import re
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, SecretStr
from pydantic_core import PydanticCustomError


class Frozen(BaseModel):
    """Base of everything that a person can write: immutable, and no key is ever dropped."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, protected_namespaces=(), allow_inf_nan=False
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """What never changes is its own copy: pydantic asks for one of a default, for every element."""
        return self


def _no_truth_value(value: object) -> object:
    """YAML reads `yes` as true, and true is 1 to Python: where a number is wanted, it is neither."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "a number is wanted")
    return value


Whole = Annotated[int, BeforeValidator(_no_truth_value)]
"""A whole number, and no truth value."""
Number = Annotated[float, BeforeValidator(_no_truth_value)]
"""A number, and no truth value."""


_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(?:\d+\s*(?:ms|s|m|h|d)\s*)+")
_PART: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)")


def _duration_ms(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not _DURATION.fullmatch(value.strip()):
        raise ValueError("a duration looks like `500ms`, `5s`, `2m` or `1h 30m`")
    return sum(int(count) * _UNITS_MS[unit] for count, unit in _PART.findall(value))


def _duration_text(milliseconds: int) -> str:
    return f"{milliseconds}ms"


def spoken_duration(milliseconds: int) -> str:
    """A span of time as people say it, in the largest unit that it is a whole number of: `1 day`, `90 minutes`."""
    units = (("day", "d"), ("hour", "h"), ("minute", "m"), ("second", "s"))
    for word, unit in units:
        count, rest = divmod(milliseconds, _UNITS_MS[unit])
        if count and not rest:
            return f"{count:,} {word}{'' if count == 1 else 's'}"
    return f"{milliseconds:,} ms"


Duration = Annotated[
    int, BeforeValidator(_duration_ms, json_schema_input_type=str | int), PlainSerializer(_duration_text)
]
"""Milliseconds; written as `500ms`, `5s`, `2m`."""


def _flush_interval(value: object) -> object:
    try:
        return _duration_ms(value)
    except ValueError as error:
        raise ValueError(f"invalid batch_flush_interval '{value}': {error}") from None


FlushInterval = Annotated[
    int,
    BeforeValidator(_flush_interval, json_schema_input_type=str | int),
    PlainSerializer(_duration_text),
    Field(ge=0),
]
"""A duration, by the name that it has everywhere."""


def _split_names(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


def _join_names(names: tuple[str, ...]) -> str:
    return ",".join(names)


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_split_names, json_schema_input_type=str | list[str]),
    PlainSerializer(_join_names),
]
"""Column names; written as one comma-separated string."""


OnError: TypeAlias = Literal["dead_letter", "stop", "skip"]
"""What becomes of a row that cannot be used: it is kept, the query stops, or it is left out."""


def _revealed(secret: SecretStr) -> str:
    return secret.get_secret_value()


Secret = Annotated[SecretStr, PlainSerializer(_revealed, when_used="json")]
"""A text that is never shown: documents for people and logs leave it out. Only a connector's own document has it."""
