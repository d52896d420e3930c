"""Names of topics, on a broker or as directories."""

from typing import Annotated, Final

from penstock.config import TextPattern

TOPIC_NAME: Final = r"(?:[A-Za-z0-9_-]|\.[A-Za-z0-9_-]|\.\.[A-Za-z0-9._-])[A-Za-z0-9._-]{0,246}"
"""A name that is valid for a Kafka topic and for a directory: never `.` or `..`."""
TopicName = Annotated[
    str,
    TextPattern(
        TOPIC_NAME,
        "the name of a topic has up to 249 letters (a to z, in either case), digits, `.`, `_` and `-`,"
        " and is not `.` or `..`",
    ),
]
ERRORS: Final = ".errors"


def dead_letter_topic(node_id: str) -> str:
    """Return the dead-letter topic of a node."""
    return node_id.partition(".")[2] + ERRORS
