"""What every configurable value is made of, and the application's own settings."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from penstock.errors import Diagnostic, ProjectInvalid


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


def is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text.strip()) is not None


def _duration_ms(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not is_duration(value):
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


def _revealed(secret: SecretStr) -> str:
    return secret.get_secret_value()


Secret = Annotated[SecretStr, PlainSerializer(_revealed, when_used="json")]
"""A text that is never shown: documents for people and logs leave it out. Only a connector's own document has it."""


class PrintSinkSettings(Frozen):
    sample_every: int = Field(1, ge=1)


class HttpSettings(Frozen):
    """How requests are sent, unless a node says otherwise."""

    trigger_max_count: int = Field(2000, ge=1)
    """Rows of a request."""
    operator_timeout_sec: float = Field(300, gt=0)
    """How long an answer is waited for."""
    buffer_size: int = Field(25, ge=1)
    """Requests of a worker that are under way at a time."""


class Settings(Frozen):
    """Settings of the application itself, from the environment.

    A property is named `PENSTOCK__A__B`; the same name with the prefix `STREAMLING__` is read too and is the
    weaker of the two.
    """

    pipeline_definition_location: str | None = None
    print_sink: PrintSinkSettings = PrintSinkSettings()
    num_records_before_stop: int | None = Field(None, ge=1)
    external_http_handler: HttpSettings = HttpSettings()
    http_secret_header: dict[str, str] = {}
    """Names of headers, by the `secret_name` of a node in lower case."""
    http_secret_value: dict[str, SecretStr] = Field({}, repr=False)
    """What those headers say."""
    kafka_source: dict[str, str] = Field({}, repr=False)
    kafka_sink: dict[str, str] = Field({}, repr=False)
    postgres_sink: dict[str, str] = Field({}, repr=False)
    postgres_sink_connections: dict[str, dict[str, str]] = Field({}, repr=False)
    """The settings of other systems are read by `penstock.project.settings`."""


def settings_from(environ: Mapping[str, str]) -> Settings:
    """The settings; a variable of ours that means nothing, or has a value that means nothing, is an error."""
    try:
        theirs = _known_part(Settings, _tree(environ, "STREAMLING__"))
        return Settings.model_validate(_merged(theirs, _tree(environ, "PENSTOCK__")))
    except ValidationError as error:
        raise ProjectInvalid([_mistake(detail) for detail in error.errors(include_url=False)]) from None


def _tree(environ: Mapping[str, str], prefix: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name in sorted(environ):
        if name.startswith(prefix):
            *levels, leaf = name.removeprefix(prefix).lower().split("__")
            branch = tree
            for level in levels:
                branch = branch.setdefault(level, {})
                if not isinstance(branch, dict):
                    break
            else:
                branch[leaf] = environ[name]
    return tree


def _known_part(model: type[BaseModel], tree: dict[str, Any]) -> dict[str, Any]:
    """Of another system's settings, those that we share with it."""
    known: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        nested = field.annotation
        if name in tree and isinstance(nested, type) and issubclass(nested, BaseModel):
            known[name] = _known_part(nested, tree[name])
        elif name in tree:
            known[name] = tree[name]
    return known


def _merged(weaker: dict[str, Any], stronger: dict[str, Any]) -> dict[str, Any]:
    merged = dict(weaker)
    for name, value in stronger.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _mistake(detail: ErrorDetails) -> Diagnostic:
    name = "PENSTOCK__" + "__".join(str(step).upper() for step in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return Diagnostic("unknown-field", f"there is no setting `{name}`", path=name, params={"field": name})
    text = detail["msg"].removeprefix("Input ")
    return Diagnostic("invalid-value", text[:1].lower() + text[1:], path=name, hint="change the variable")
