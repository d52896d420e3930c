"""Converts the values of tests to the type of the column, and refuses values that do not fit."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, TypeAlias

from penstock.errors import Diagnostic
from penstock.project import stream_project as written
from penstock.project.validation.declaration import Declaration
from penstock.project.yaml.documents import PathStep
from penstock.sql.types.columns import Columns
from penstock.sql.types.literals import is_date, is_timestamp

ValueKind: TypeAlias = Literal["text", "number", "truth", "date", "time"]
_KINDS: Final[dict[str, ValueKind]] = {
    "STRING": "text",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"), "number"),
    "BOOLEAN": "truth",
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), "time"),
}
_NESTED: Final = ("ARRAY", "MAP", "STRUCT", "BINARY")
_TRUTH: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class _ComparedColumn:
    """A value or list in a test that a column is compared with."""

    column: str
    steps: tuple[PathStep, ...]
    values: tuple[Any, ...] = ()
    """The values of a list; empty where the test needs a number."""


def type_test_values(
    declared: Declaration[written.DataTest], columns: Columns | None
) -> tuple[written.DataTest, list[Diagnostic]]:
    """The test with its values converted to the types of their columns, and the diagnostics."""
    assertions, found = [], list[Diagnostic]()
    for place, assertion in enumerate(declared.value.assertions):
        listed: list[Any] | None = None
        for compared in _compared_columns(assertion, place):
            listed, wrong = _type_values(declared, compared, columns)
            found += wrong
        if listed and assertion.accepted_values is not None:
            body = assertion.accepted_values.model_copy(update={"values": tuple(listed)})
            assertion = assertion.model_copy(update={"accepted_values": body})
        assertions.append(assertion)
    return declared.value.model_copy(update={"assertions": tuple(assertions)}), found


def type_check_values(
    declared: Declaration[written.Source] | Declaration[written.Model], columns: Columns | None
) -> tuple[dict[tuple[str, int], list[Any]], list[Diagnostic]]:
    """The converted values of column checks, by column and position, and the diagnostics."""
    lists: dict[tuple[str, int], list[Any]] = {}
    found: list[Diagnostic] = []
    for number, column in enumerate(declared.value.columns):
        for place, check in enumerate(column.tests):
            steps: tuple[PathStep, ...] = ("columns", number, "tests", place)
            if check.accepted_values is not None:
                compared = _ComparedColumn(column.name, (*steps, "accepted_values"), check.accepted_values.values)
            elif check.range is not None:
                compared = _ComparedColumn(column.name, (*steps, "range"))
            else:
                continue
            listed, wrong = _type_values(declared, compared, columns)
            found += wrong
            if listed:
                lists[column.name, place] = listed
    return lists, found


def _compared_columns(assertion: written.Assertion, place: int) -> Iterator[_ComparedColumn]:
    steps: tuple[PathStep, ...] = ("assertions", place, assertion.kind)
    if (listed := assertion.accepted_values) is not None:
        yield _ComparedColumn(listed.column, steps, listed.values)
    if (bounds := assertion.range) is not None:
        yield _ComparedColumn(bounds.column, steps)
    if assertion.positive is not None:
        yield from (_ComparedColumn(column, steps) for column in assertion.positive.columns)
    if assertion.distribution is not None:
        yield _ComparedColumn(assertion.distribution.column, steps)


def _type_values(
    declared: Declaration[Any], compared: _ComparedColumn, columns: Columns | None
) -> tuple[list[Any] | None, list[Diagnostic]]:
    type_ = next((c.type for c in columns or () if c.name.casefold() == compared.column.casefold()), None)
    base = type_.partition("(")[0].partition("<")[0] if type_ else ""
    word = str(compared.steps[-1])

    def wrong(message: str, hint: str, *steps: PathStep) -> Diagnostic:
        at = _written_steps(declared, (*compared.steps, *steps))
        return declared.diagnostic("contract-broken", message, hint, at=at, column=compared.column)

    if base in _NESTED or (not compared.values and _KINDS.get(base, "number") != "number"):
        wanted = "single values" if compared.values else "numbers"
        text = f"`{compared.column}` is {type_}, and `{word}` compares {wanted}"
        return None, [wrong(text, "test another column, or write a condition: custom_sql: {where: …}")]
    return _type_list(declared, compared, type_, base, wrong) if compared.values else (None, [])


def _type_list(
    declared: Declaration[Any],
    compared: _ComparedColumn,
    type_: str | None,
    base: str,
    wrong: Callable[..., Diagnostic],
) -> tuple[list[Any], list[Diagnostic]]:
    texts = [_source_text(declared, compared, place) for place in range(len(compared.values))]
    if None in compared.values:
        hint = "remove it: rows with NULL pass, and `not_null` rejects them; quote it if it is a text"
        return [], [wrong("null cannot be compared", hint, "values", compared.values.index(None))]
    if type_ is None:
        return _untyped_values(compared.values, texts), []
    made, found = [], []
    for place, (value, text) in enumerate(zip(compared.values, texts, strict=True)):
        typed = _parse_value(value, text, _KINDS.get(base))
        if typed is None:
            message = f"`{text}` cannot be compared with `{compared.column}`, which is {type_}"
            found.append(wrong(message, _HINTS[_KINDS[base]], "values", place))
        made.append(typed)
    return made, found


_HINTS: Final[dict[ValueKind, str]] = {
    "text": "write a text",
    "number": "write a number",
    "truth": "write true or false",
    "date": "write a day like 2026-01-31",
    "time": "write a time like 2026-01-31 12:00:00",
}


def _parse_value(value: Any, text: str, kind: ValueKind | None) -> Any:
    """The value as that kind, or None if it does not fit."""
    match kind:
        case "text":
            return text
        case "number":
            return _parse_number(value, text)
        case "truth":
            return value if isinstance(value, bool) else _TRUTH.get(text.strip().casefold())
        case "date":
            return text if is_date(text) else None
        case "time":
            return text if is_timestamp(text) else None
        case None:
            return value


def _parse_number(value: Any, text: str) -> int | float | Decimal | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _untyped_values(values: Sequence[Any], texts: Sequence[str]) -> list[Any]:
    """Numbers if all values are numbers; otherwise all values as the text that was written."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return list(values)
    return list(texts)


def _source_text(declared: Declaration[Any], compared: _ComparedColumn, place: int) -> str:
    """The text of a value in the document: `NO` and not false."""
    value = compared.values[place]
    if isinstance(value, str):
        return value
    source = declared.source_text(*_written_steps(declared, (*compared.steps, "values", place)))
    return str(value) if source is None else source


def _written_steps(declared: Declaration[Any], steps: tuple[PathStep, ...]) -> tuple[PathStep, ...]:
    """The path of an assertion: a single one needs no list."""
    if steps[:2] == ("assertions", 0) and declared.is_mapping("assertions"):
        return ("assertions", *steps[2:])
    return steps
