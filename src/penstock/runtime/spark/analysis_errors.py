"""Translates Spark's errors about the SQL of a node. If columns are known, `validate` finds such errors earlier."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.errors import AnalysisException

from penstock.errors import PenstockError, QueryFailed, did_you_mean
from penstock.runtime.spark.errors import failure_of
from penstock.sql.types.columns import find_case_clash

_NAME: Final = re.compile(r"`((?:[^`]|``)*)`")
_REST: Final = re.compile(r"^\[[\w.]+\] |\.? SQLSTATE: .*", re.DOTALL)
"""What Spark puts before and after a message."""
_MISMATCH: Final = re.compile(r'Cannot resolve "(.*)" due to data type mismatch: (.*)', re.DOTALL)
_OF_NODES: Final = frozenset({"column-names", "sql-duplicate-column"})
"""Codes of errors about names, which may be raised without knowing the node."""


@contextmanager
def attribute_errors(node: str) -> Iterator[None]:
    """Translate Spark's errors within the block and attribute them to a node, given by its id."""
    kind, _, name = node.partition(".")
    stopped = f"{kind} `{name}` cannot be {'read' if kind == 'source' else 'computed'}"
    try:
        yield
    except AnalysisException as error:
        raise translate_error(error).with_context(stopped, node=name) from error
    except PenstockError as error:
        if error.code in _OF_NODES:
            error.with_context(stopped, node=name)
        raise


def check_outputs(names: Sequence[str]) -> None:
    """Refuse two outputs of a query with names that are equal for SQL, which ignores case."""
    if (pair := find_case_clash(names)) is not None:
        one, other = pair
        both = f"two outputs are called `{one}`" if one == other else f"outputs are called `{one}` and `{other}`"
        hint = "give one of them another name with AS, or name the columns in place of `*`"
        raise QueryFailed("sql-duplicate-column", both, hint=hint)


def translate_error(error: AnalysisException) -> PenstockError:
    """Translate a Spark error about SQL."""
    said, condition = error.getMessageParameters() or {}, error.getCondition() or ""
    match condition.partition(".")[0]:
        case "UNRESOLVED_COLUMN":
            near = [_parts(name) for name in said.get("proposal", "").split(", ") if name]
            return _no_column(_parts(said["objectName"]), near)
        case "FIELD_NOT_FOUND":
            names = _NAME.findall(said["fields"])
            text = f"there is no field {said['fieldName']}"
            hint = did_you_mean(said["fieldName"].strip("`"), names, otherwise="there are")
            return QueryFailed("sql-unknown-column", text, hint=hint)
        case "AMBIGUOUS_REFERENCE" | "AMBIGUOUS_REFERENCE_TO_FIELDS":
            name = said.get("name") or said.get("field") or ""
            text = f"there is more than one {name}, and names are not case-sensitive"
            return QueryFailed("sql-duplicate-column", text, hint="give one of them another name with AS")
        case "NUM_COLUMNS_MISMATCH":
            counts = f"{said['firstNumColumns']} and {said['invalidNumColumns']}"
            text = f"the two sides of a {said['operator']} have {counts} columns, `_gs_op` among them"
            return QueryFailed("sql-statement", text, hint="select the same columns on both sides")
        case "INCOMPATIBLE_COLUMN_TYPE":
            types = f"{said['dataType2']} on one side of a {said['operator']} and {said['dataType1']} on the other"
            text = f"the {said['columnOrdinalNumber']} column is {types}".replace('"', "")
            return QueryFailed("sql-argument", text, hint="make them one type with CAST")
        case "INVALID_EXTRACT_BASE_FIELD_TYPE":
            text = f"{said['base']} is {said['other']}, which has no fields".replace('"', "`")
            return QueryFailed("sql-argument", text)
        case "DATATYPE_MISMATCH" if found := _MISMATCH.fullmatch(_plain_message(error)):
            text = f"`{found[1]}` cannot be computed: {found[2]}".replace('"', "")
            return QueryFailed("sql-argument", text, hint="make it another type with CAST")
    failure = failure_of(error)
    if failure.retriable or failure.code != "query-failed":
        return failure
    return QueryFailed(failure.code, _plain_message(error))


def _no_column(name: list[str], near: list[list[str]]) -> QueryFailed:
    """Return the error for an unknown column. Names are given by their parts, because a table may precede a column."""
    text = f"there is no column `{'.'.join(name)}`"
    columns = [parts[-1] for parts in near]
    if ".".join(name) in columns:
        return QueryFailed("sql-unknown-column", text, hint=f'put a name with a dot in quotes: "{".".join(name)}"')
    return QueryFailed("sql-unknown-column", text, hint=did_you_mean(name[-1], columns, otherwise="there are"))


def _parts(name: str) -> list[str]:
    return [part.replace("``", "`") for part in _NAME.findall(name)]


def _plain_message(error: AnalysisException) -> str:
    return _REST.sub("", str(error)).strip().partition("\n")[0]
