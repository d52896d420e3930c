"""Names of topics, on a broker or as directories."""

from typing import Final

TOPIC_NAME: Final = r"(?:[A-Za-z0-9_-]|\.[A-Za-z0-9_-]|\.\.[A-Za-z0-9._-])[A-Za-z0-9._-]{0,246}"
"""What Kafka takes for a topic, and what is one directory here: never `.` or `..`."""
ERRORS: Final = ".errors"


def error_topic(node_id: str) -> str:
    """The topic that keeps the rows of a node that could not be used."""
    return node_id.partition(".")[2] + ERRORS
