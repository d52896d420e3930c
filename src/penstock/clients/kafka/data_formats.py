"""Formats of records, and types of their columns."""

from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

from penstock.config import TextPattern, refuse_duplicates, unknown_word_error
from penstock.row_columns import OP
from penstock.sql.types.arrow_types import TYPE_NAMES, column_type, is_long_fraction


def format_validator(*known: str) -> BeforeValidator:

    def check(value: object) -> object:
        if isinstance(value, str) and value not in known:
            raise unknown_word_error("unsupported Kafka format: {given}; there are {words}", value, known)
        return value

    return BeforeValidator(check)


def _parse_type(value: object) -> object:
    found = column_type(value) if isinstance(value, str) else None
    if isinstance(value, str) and is_long_fraction(value):
        raise ValueError(
            f"unsupported data type '{value}' in schema; decimals have up to 38 digits, or none after the point."
            " Declare it as `string` and put its numbers in quotes, so that no digit is lost"
        )
    if found is None:
        text = "unsupported data type '{given}' in schema; supported types: {words}"
        raise unknown_word_error(text, value, TYPE_NAMES)
    return found


ColumnType = Annotated[str, BeforeValidator(_parse_type, json_schema_input_type=str)]
"""An Arrow or SQL type, converted to a Spark type."""


def _check_schema(schema: dict[str, str]) -> dict[str, str]:
    refuse_duplicates(schema)
    kind = next((kind for name, kind in schema.items() if name.casefold() == OP), "STRING")
    if kind.upper() != "STRING":
        raise ValueError(f"`{OP}` is {kind}, not a string: its values are `i`, `u` and `d`")
    return schema


Schema = Annotated[dict[str, ColumnType], AfterValidator(_check_schema)]


def _number_to_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


BEGINNING: Final = TextPattern(
    r"(earliest|latest|[0-9]+)", "a topic is read from `earliest`, `latest`, or a time in milliseconds since 1970"
)
Beginning = Annotated[str, BeforeValidator(_number_to_text, json_schema_input_type=str | int), BEGINNING]
"""The position to start reading from."""
