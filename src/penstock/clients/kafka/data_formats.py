"""What values of a topic can be, in the words of who declares a source or a sink."""

from pydantic import BeforeValidator

from penstock.config import unknown_word


def known_format(*known: str) -> BeforeValidator:
    """A check that a word is one of these formats."""

    def check(value: object) -> object:
        if isinstance(value, str) and value not in known:
            raise unknown_word("unsupported Kafka format: {given}; there are {words}", value, known)
        return value

    return BeforeValidator(check)
