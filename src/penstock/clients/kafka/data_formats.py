"""What values of a topic can be: the words for their formats, and for the types of their columns."""

from typing import Annotated

from pydantic import BeforeValidator

from penstock.config import unknown_word
from penstock.sql.arrow_types import TYPE_NAMES, column_type, is_long_fraction


def known_format(*known: str) -> BeforeValidator:
    """A check that a word is one of these formats."""

    def check(value: object) -> object:
        if isinstance(value, str) and value not in known:
            raise unknown_word("unsupported Kafka format: {given}; there are {words}", value, known)
        return value

    return BeforeValidator(check)


def _type(value: object) -> object:
    found = column_type(value) if isinstance(value, str) else None
    if isinstance(value, str) and is_long_fraction(value):
        raise ValueError(
            f"unsupported data type '{value}' in schema; supported types: those of up to 38 digits, or of none behind"
            " the point. Declare it as `string`, and let its numbers stand in quotes: so every digit is kept"
        )
    if found is None:
        raise unknown_word("unsupported data type '{given}' in schema; supported types: {words}", value, TYPE_NAMES)
    return found


ColumnType = Annotated[str, BeforeValidator(_type, json_schema_input_type=str)]
"""A type of Arrow or SQL, which becomes one of Spark."""
