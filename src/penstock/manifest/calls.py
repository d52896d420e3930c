"""What the SQL of a query calls outside of Spark: machine-learning models and user functions."""

from penstock.manifest.part import Part


class AskedModel(Part):
    """A machine-learning model that the SQL of a query calls as a function. `content` is the digest of its file; None
    if it is missing. `answer` is the struct that the project declares; None if the file defines it."""

    function: str
    model: str
    path: str
    content: str | None
    answer: str | None


class CalledFunction(Part):
    """A user function that the SQL of a query calls. `file` is relative to the project, and `content` the digest of its
    source with the files that it imports. Types are those of Spark."""

    name: str
    function: str
    file: str
    content: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
