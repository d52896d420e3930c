"""Makes the schemas that Spark stores for the state of a query independent of which inputs had rows first."""

import os
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.errors import PlanRefused
from penstock.manifest.model import KeyedStep, Manifest, QuerySpec
from penstock.manifest.queries.input_columns import declared_columns
from penstock.plan.changes.reasons import rebuild_hint
from penstock.plan.deployed.place import last_number
from penstock.plan.deployed.state_origin import InputColumns, StateOrigin, read_origin, write_origin
from penstock.sql.parse.dialects import quote_spark_identifier

_FLAGS: Final = (b'"nullable":', b'"containsNull":', b'"valueContainsNull":')


def begin_state(checkpoint: Path, query: QuerySpec, manifest: Manifest, session: SparkSession) -> None:
    """Record the columns and partitions of a query's state before its first batch, and prepare existing state.

    The query's steps are views of the session. State that does not fit them any more is refused and left unchanged.
    """
    found = {view: leaf_types(session.table(quote_spark_identifier(view)).schema) for view in _state_views(query)}
    origin = read_origin(checkpoint) if last_number(checkpoint / "commits") is not None else None
    if origin is not None:
        _check_fit(query, origin.found, found)
    partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 0)
    now = StateOrigin(partitions, declared_columns(manifest, query), found)
    if now != origin:
        write_origin(checkpoint, now, before=origin)
    relax_nullability(checkpoint)


def _state_views(query: QuerySpec) -> list[str]:
    """Return the views whose rows our own operators keep. Spark checks the state of its own operators."""
    return [view for step in query.steps if isinstance(step, KeyedStep) for view in step.inputs]


def leaf_types(schema: StructType, below: str = "") -> dict[str, str]:
    """Return every column, and every field of a struct in it, by path, with its type."""
    found: dict[str, str] = {}
    for field in schema:
        kind = field.dataType
        path = f"{below}{field.name}"
        found |= leaf_types(kind, f"{path}.") if isinstance(kind, StructType) else {path: kind.simpleString()}
    return found


def _check_fit(query: QuerySpec, before: InputColumns, after: InputColumns) -> None:
    """Refuse to start if types differ from those of the state. If a plan knows the types, it refuses this earlier."""
    reasons = [
        f"{_describe_column(path)} is {old.upper()} in its state, and {columns[path].upper()} in its rows"
        for view, columns in after.items()
        for path, old in before.get(view, {}).items()
        if columns.get(path, old) != old
    ]
    if reasons:
        text = f"`{query.name}` must be rebuilt: {'; '.join(dict.fromkeys(reasons))}"
        raise PlanRefused("rebuild-refused", text, hint=rebuild_hint(query.name))


def _describe_column(path: str) -> str:
    """Return the name of a column for messages; names of our own for columns with keys and arguments are not shown."""
    name = path.rpartition(".")[2]
    return "a column" if name.startswith("_") else f"`{name}`"


def relax_nullability(checkpoint: Path) -> None:
    """Mark every column of the state in a checkpoint as nullable in Spark's schema files.

    Whether Spark considers a column nullable follows from the plan of the first batch, which depends on the readers
    that had rows in it. At a restart, Spark refuses state of a non-nullable column if the column is nullable now, but
    accepts the reverse. The bytes of state rows are the same in either case.
    """
    first = "[0-9]*/0"  # the first partition of an operator has the schemas of all
    for files in (f"{first}/_metadata/schema", f"{first}/*/_metadata/schema"):
        for file in (checkpoint / "state").glob(files):
            _relax_file(file)


def _relax_file(file: Path) -> None:
    """Replace the flags in place: lengths in the file stay correct, because JSON may contain blanks."""
    text = found = file.read_bytes()
    for flag in _FLAGS:
        text = text.replace(flag + b"false", flag + b"true ")
    if text == found:
        return
    staged = file.with_name(f".{file.name}.{os.getpid()}")
    staged.write_bytes(text)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Hadoop does not verify a file without a checksum
    staged.replace(file)
