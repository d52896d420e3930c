"""The forms of SQL that may reach Spark: an allowlist, so that no unknown form gets through.

Spark's parser accepts far more than a query over streams needs: `SELECT TRANSFORM(…) USING` starts a program,
``FROM parquet.`/path` `` reads a file, `SELECT … INTO` makes a table. A form that is not listed here is refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from penstock.sql.catalog.function_names import called_name, class_name
from penstock.sql.catalog.spark_functions import SPARK_NAMES

_HINT: Final = "docs/sql.md lists what a query can be made of"


@dataclass(frozen=True, slots=True)
class ForbiddenForm:
    """A node that a query must not have, and the reason."""

    node: exp.Expr
    message: str
    subject: str
    hint: str = _HINT


UNSAFE_FUNCTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("JAVA_METHOD", "REFLECT", "TRY_REFLECT"), "calls Java from SQL"),
    **dict.fromkeys(("FROM_PROTOBUF", "TO_PROTOBUF"), "reads a file of this machine"),
    **dict.fromkeys(
        ("INPUT_FILE_BLOCK_LENGTH", "INPUT_FILE_BLOCK_START", "INPUT_FILE_NAME"), "shows the files that are read"
    ),
    "PYTHON_WORKER_LOGS": "reads logs of this machine",
}
"""Functions of Spark that access more than the rows of a query, and their effect."""
SAFE_FUNCTIONS: Final = SPARK_NAMES - UNSAFE_FUNCTIONS.keys()
_LONGEST: Final = {"FROM_AVRO": 2, "FROM_XML": 2, "SCHEMA_OF_AVRO": 1, "SCHEMA_OF_XML": 1, "TO_AVRO": 2}
"""The allowed number of arguments of functions whose options may name a file."""

_QUERY: Final = frozenset({"with_", "order", "limit", "offset"})
_CLAUSES: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    exp.Select: _QUERY
    | {
        "distinct", "expressions", "from_", "group", "having", "hint", "joins", "laterals", "match", "qualify", "sort",
        "where", "windows",
    },
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), _QUERY | {"by_name", "distinct", "expression", "this"}),
    exp.Subquery: _QUERY | {"alias", "joins", "laterals", "match", "pivots", "this"},
    exp.Table: frozenset({"alias", "catalog", "db", "joins", "laterals", "pivots", "this", "version"}),
    exp.Join: frozenset({"kind", "method", "on", "side", "this", "using"}),
    exp.Lateral: frozenset({"alias", "outer", "this", "view"}),
    exp.Unnest: frozenset({"alias", "expressions", "offset"}),
    exp.Values: frozenset({"alias", "expressions"}),
    exp.Pivot: frozenset(exp.Pivot.arg_types),
    exp.With: frozenset({"expressions", "recursive"}),
    exp.CTE: frozenset({"alias", "this"}),
    exp.Group: frozenset({"all", "cube", "expressions", "grouping_sets", "rollup"}),
    exp.Limit: frozenset({"expression"}),
    exp.Ordered: frozenset({"desc", "nulls_first", "this"}),
}  # fmt: skip
"""The nodes of a query's clauses, each with its allowed parts."""
_CLAUSE_WORDS: Final[Mapping[str, str]] = {
    "cluster": "CLUSTER BY", "connect": "CONNECT BY", "cross_apply": "APPLY", "distribute": "DISTRIBUTE BY",
    "for_": "FOR", "format": "FORMAT", "global_": "GLOBAL", "hints": "WITH (…) behind a table", "into": "INTO",
    "kind": "SELECT AS", "limit_options": "PERCENT", "locks": "FOR UPDATE", "materialized": "MATERIALIZED",
    "on": "BY NAME ON", "operation_modifiers": "a modifier of SELECT", "ordinality": "WITH ORDINALITY",
    "partition": "PARTITION", "prewhere": "PREWHERE", "rows_from": "ROWS FROM", "sample": "TABLESAMPLE",
    "settings": "SETTINGS", "system_time": "FOR SYSTEM_TIME", "totals": "WITH TOTALS", "udfs": "a function in WITH",
    "when": "AT or BEFORE", "with_fill": "WITH FILL",
}  # fmt: skip

_PARTS: Final = frozenset(
    {
        # structure around values
        exp.Alias, exp.Aliases, exp.Column, exp.ColumnDef, exp.Cube, exp.DataType, exp.DataTypeParam, exp.Distinct,
        exp.Fetch, exp.Filter, exp.From, exp.GroupingSets, exp.Having, exp.Hint, exp.Identifier, exp.IgnoreNulls,
        exp.IntervalSpan, exp.JSON, exp.JoinHint, exp.JSONKeyValue, exp.JSONPath, exp.JSONPathFilter, exp.JSONPathKey,
        exp.JSONPathRecursive, exp.JSONPathRoot, exp.JSONPathScript, exp.JSONPathSelector, exp.JSONPathSlice,
        exp.JSONPathSubscript, exp.JSONPathUnion, exp.JSONPathWildcard, exp.Kwarg, exp.Lambda, exp.LimitOptions,
        exp.MatchRecognize, exp.MatchRecognizeMeasure, exp.ObjectIdentifier, exp.Offset, exp.Order, exp.PivotAlias,
        exp.PivotAny, exp.PropertyEQ, exp.Qualify, exp.RespectNulls, exp.Rollup, exp.Slice, exp.Sort, exp.Star,
        exp.TableAlias, exp.Tuple, exp.Var, exp.Version, exp.Where, exp.Window, exp.WindowSpec, exp.WithinGroup,
        # values
        exp.BitString, exp.Boolean, exp.ByteString, exp.HexString, exp.Interval, exp.Literal, exp.National, exp.Null,
        exp.RawString, exp.UnicodeString,
        # operators
        exp.Add, exp.All, exp.Any, exp.AtTimeZone, exp.Between, exp.BitwiseAnd, exp.BitwiseLeftShift, exp.BitwiseNot,
        exp.BitwiseOr, exp.BitwiseRightShift, exp.BitwiseXor, exp.Bracket, exp.DPipe, exp.Div, exp.Dot,
        exp.EQ, exp.Escape, exp.FromTimeZone, exp.GT, exp.GTE, exp.Glob, exp.ILike, exp.In, exp.IntDiv, exp.Is,
        exp.LT, exp.LTE, exp.Like, exp.Mod, exp.Mul, exp.NEQ, exp.Neg, exp.Not, exp.NullSafeEQ, exp.NullSafeNEQ,
        exp.Overlaps, exp.Paren, exp.SimilarTo, exp.Sub,
    }
)  # fmt: skip
_UNNAMED: Final = frozenset(
    {
        exp.And, exp.ApproxQuantile, exp.ArgMax, exp.ArgMin, exp.Array, exp.ArrayContainedBy, exp.ArrayContainsAll,
        exp.ArrayOverlaps, exp.Case, exp.Cast, exp.CastToStrType, exp.Ceil, exp.Chr, exp.Collate, exp.CurrentCatalog,
        exp.CurrentDate, exp.CurrentSchema, exp.CurrentTime, exp.CurrentTimestamp, exp.CurrentUser, exp.Decode,
        exp.DecodeCase, exp.Exists, exp.Extract, exp.FirstValue, exp.Floor, exp.GroupConcat, exp.If, exp.Initcap,
        exp.JSONBContains, exp.JSONBContainsTopKey, exp.JSONBExtract, exp.JSONBExtractScalar, exp.JSONExtract,
        exp.JSONExtractScalar, exp.JSONObject, exp.JSONObjectAgg, exp.LastValue, exp.Localtime, exp.Localtimestamp,
        exp.Normalize, exp.Or, exp.Overlay, exp.Pow, exp.Quantile, exp.RegexpILike, exp.RegexpLike, exp.SessionUser,
        exp.StrPosition, exp.Struct, exp.Substring, exp.TimeStrToTime, exp.Transform, exp.Trim, exp.TryCast,
        exp.TsOrDsToDate, exp.Unnest, exp.Xor,
    }
)  # fmt: skip
"""Functions and operators whose name as written is not kept by the parser. Others are identified by name."""
_GENERATORS: Final = (exp.Subquery, exp.Func)
_JOIN_HINTS: Final = frozenset(
    {
        "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLEMERGE", "SHUFFLE_HASH",
        "SHUFFLE_MERGE", "SHUFFLE_REPLICATE_NL",
    }
)  # fmt: skip


def forbidden_forms(tree: exp.Expr) -> Iterator[ForbiddenForm]:
    """Return the parts of a query that are not on the list."""
    for node in tree.walk():
        if isinstance(node, exp.Func):
            yield from _check_function(node)
        elif (parts := _CLAUSES.get(type(node))) is not None:
            yield from _check_clause(node, parts)
        elif type(node) not in _PARTS:
            yield _forbidden_form(node)
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            name = called_name(node.expression) or class_name(type(node.expression))
            text = f"`{name}` follows a dot, and functions have no path"
            yield ForbiddenForm(node, text, name, "write its name alone")
        elif isinstance(node, exp.Version) and node.name.upper() != "TIMESTAMP":
            yield ForbiddenForm(node, f"{node.name.upper()} AS OF is not supported", "VERSION")


def _check_function(node: exp.Func) -> Iterator[ForbiddenForm]:
    name = called_name(node).upper()
    if name in UNSAFE_FUNCTIONS:
        hint = "use a SQL function; docs/sql.md lists them"
        yield ForbiddenForm(node, f"{name} {UNSAFE_FUNCTIONS[name]}, which is not allowed", name, hint)
    elif name in _LONGEST and len(list(node.iter_expressions())) > _LONGEST[name]:
        text = f"{name} takes no options here: they may name files of this machine"
        yield ForbiddenForm(node, text, name, f"remove the arguments after argument {_LONGEST[name]}")
    elif not name and type(node) not in _UNNAMED:
        yield _forbidden_form(node)


def _check_clause(node: exp.Expr, parts: frozenset[str]) -> Iterator[ForbiddenForm]:
    for part, value in node.args.items():
        if value and part not in parts:
            word = _CLAUSE_WORDS.get(part, part.rstrip("_").upper())
            yield ForbiddenForm(node, f"{word} is not supported", word)
    match node:
        case exp.Table() if not isinstance(node.this, exp.Identifier):
            word = called_name(node.this) or node.this.key
            text = f"`{word}` is used as a table, but only sources, models and subqueries can be read"
            yield ForbiddenForm(node, text, word, "read a source or a model; UNNEST(…) turns an array into rows")
        case exp.Lateral() if not isinstance(node.this, _GENERATORS):
            yield ForbiddenForm(node, "LATERAL takes a subquery or a function that makes rows", "LATERAL")
        case exp.Select():
            yield from _check_hints(node)
        case _:
            pass


def _check_hints(select: exp.Select) -> Iterator[ForbiddenForm]:
    hint = select.args.get("hint")
    for entry in hint.expressions if hint is not None else ():
        name = (called_name(entry) or entry.name).upper()
        if not isinstance(entry, exp.JoinHint) or name not in _JOIN_HINTS:
            text = f"the hint {name or entry.sql()} is not supported"
            yield ForbiddenForm(entry, text, name, "remove it; the syntax of a join hint is /*+ BROADCAST(name) */")


def _forbidden_form(node: exp.Expr) -> ForbiddenForm:
    match node:
        case exp.QueryTransform():
            text = "TRANSFORM … USING starts a program, which is not allowed"
            return ForbiddenForm(node, text, "TRANSFORM", "use SQL functions; docs/sql.md lists them")
        case exp.Placeholder() | exp.Parameter() | exp.SessionParameter():
            text = f"`{node.sql()}` is a parameter without a value"
            return ForbiddenForm(node, text, node.name, 'write the value itself, or {{ var("name") }}')
        case _:
            name = class_name(type(node))
            return ForbiddenForm(node, f"{name} is not supported", name)
