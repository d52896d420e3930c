"""Read and write query analyses as JSON, for the cache."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from penstock.sql.analyze.analysis import QueryAnalysis
from penstock.sql.types.columns import spark_type


@cache
def _adapter() -> TypeAdapter[QueryAnalysis]:
    return TypeAdapter(QueryAnalysis)


def to_json(found: QueryAnalysis) -> dict[str, Any]:
    written: dict[str, Any] = _adapter().dump_python(found, mode="json")
    return written


def from_json(kept: Mapping[str, Any]) -> QueryAnalysis:
    """Read an analysis from JSON. Invalid content raises TypeError, ValueError or AttributeError."""
    if kept.keys() != QueryAnalysis.__dataclass_fields__.keys():
        raise ValueError("an analysis has other fields")
    found = _adapter().validate_json(json.dumps(kept), strict=True)  # only JSON is read strictly and as tuples
    if found.sound and len(found.times) != len(found.windows):
        raise ValueError("each window of a sound analysis has one time")
    for column in found.columns or ():
        if column.type is not None and spark_type(column.type) is None:
            raise ValueError(f"{column.type!r} is no type")
    return found
