"""What every configurable value is made of, and the application's own settings."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer


class Frozen(BaseModel):
    """Base of everything that a person can write: immutable, and no key is ever dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, protected_namespaces=())


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


Duration = Annotated[
    int, BeforeValidator(_duration_ms, json_schema_input_type=str | int), PlainSerializer(_duration_text)
]
"""Milliseconds; written as `500ms`, `5s`, `2m`."""


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


class PrintSinkSettings(BaseModel):
    sample_every: int = 1


class Settings(BaseModel):
    """Settings of the application itself, from the environment.

    A property is named `PENSTOCK__A__B`; the same name with the prefix `STREAMLING__` is read too and is the
    weaker of the two.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    pipeline_definition_location: str | None = None
    print_sink: PrintSinkSettings = PrintSinkSettings()


def settings_from(environ: Mapping[str, str]) -> Settings:
    tree: dict[str, Any] = {}
    for prefix in ("STREAMLING__", "PENSTOCK__"):
        for name in sorted(environ):
            if name.startswith(prefix):
                *levels, leaf = name.removeprefix(prefix).lower().split("__")
                branch = tree
                for level in levels:
                    child = branch.get(level)
                    branch[level] = branch = child if isinstance(child, dict) else {}
                branch[leaf] = environ[name]
    return Settings.model_validate(tree)
