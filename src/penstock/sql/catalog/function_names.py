"""The names of functions as written, and the functions that aggregate rows."""

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from penstock.sql.parse.dialects import WRITTEN

_UNWRITTEN: Final[Mapping[type[exp.Expr], str]] = {
    exp.ApproxQuantile: "PERCENTILE_APPROX",
    exp.ArgMax: "MAX_BY",
    exp.ArgMin: "MIN_BY",
    exp.Cast: "CAST",
    exp.GroupConcat: "LISTAGG",
    exp.JSONArrayAgg: "JSON_ARRAYAGG",
    exp.JSONObject: "JSON_OBJECT",
    exp.JSONObjectAgg: "JSON_OBJECTAGG",
    exp.Quantile: "PERCENTILE",
    exp.StrPosition: "POSITION",
    exp.TryCast: "CAST",
}
"""Functions that the parser renames without keeping the name as written."""
_AGGREGATES: Final = frozenset(
    {
        "BITMAP_AND_AGG", "COLLECT", "COUNT_MIN_SKETCH", "EVERY", "HISTOGRAM_NUMERIC", "HLL_SKETCH_AGG",
        "HLL_UNION_AGG", "JSON_ARRAYAGG", "KLL_MERGE_AGG_BIGINT", "KLL_MERGE_AGG_DOUBLE", "KLL_MERGE_AGG_FLOAT",
        "KLL_SKETCH_AGG_BIGINT", "KLL_SKETCH_AGG_DOUBLE", "KLL_SKETCH_AGG_FLOAT", "MEAN", "MEASURE",
        "SCHEMA_OF_VARIANT_AGG", "SOME", "STD", "THETA_INTERSECTION_AGG", "THETA_SKETCH_AGG", "THETA_UNION_AGG",
        "TRY_AVG", "TRY_SUM", "TUPLE_INTERSECTION_AGG_DOUBLE", "TUPLE_INTERSECTION_AGG_INTEGER",
        "TUPLE_SKETCH_AGG_DOUBLE", "TUPLE_SKETCH_AGG_INTEGER", "TUPLE_UNION_AGG_DOUBLE", "TUPLE_UNION_AGG_INTEGER",
        "VECTOR_AVG", "VECTOR_SUM",
    }
)  # fmt: skip
"""Aggregates that the parser does not know."""
_RANKS: Final = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile, exp.NthValue, exp.Lag, exp.Lead
)  # fmt: skip
_AROUND: Final = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


def called_name(node: exp.Expr) -> str:
    """Return the name in a plain call as written; empty for other nodes."""
    if isinstance(node, exp.Anonymous):
        return node.name
    written = node.meta.get(WRITTEN)
    return written if isinstance(written, str) else ""


def written_name(node: exp.Expr) -> str:
    """Return the name of a function or clause as written, in capitals."""
    return called_name(node).upper() or class_name(type(node))


def class_name(kind: type[exp.Expr]) -> str:
    if kind in _UNWRITTEN:
        return _UNWRITTEN[kind]
    return kind.sql_name() if issubclass(kind, exp.Func) else kind.key.upper()


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES)


def needs_over(node: exp.Expr) -> bool:
    return isinstance(node, _RANKS)


def has_over(node: exp.Expr) -> bool:
    while isinstance(node.parent, _AROUND) and node.arg_key == "this":
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def is_group_aggregate(node: exp.Expr) -> bool:
    """Whether a node aggregates the rows of a group, without OVER."""
    return is_aggregate(node) and not has_over(node)
