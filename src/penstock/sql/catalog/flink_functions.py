"""The functions of Flink SQL that Spark lacks or that behave differently there: a table of data.

`spark` has one template for each number of arguments: Spark SQL, in which `_1` is the first argument. Other names are
derived from arguments when the SQL is known: `_2_literal` is a regular expression that matches exactly the argument,
`_3_plain` a replacement without references to groups. In `takes` each word describes an argument: `?` marks an optional
one, `*` one that can be repeated. `returns` is a Spark type; `_1` is the type of the first argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Function:
    """A Flink function and its Spark SQL. A function without templates is translated by name in `rewrite.functions`."""

    takes: str
    returns: str | None
    spark: tuple[str, ...] = ()

    @property
    def min_arguments(self) -> int:
        return sum(not word.endswith(("?", "*")) for word in self.takes.split())

    @property
    def max_arguments(self) -> int | None:
        """The maximum number of arguments; None if there is no limit."""
        words = self.takes.split()
        return None if words and words[-1].endswith("*") else len(words)

    def argument_kind(self, position: int) -> str:
        """Return the kind of the argument at a position."""
        words = self.takes.split()
        return words[min(position, len(words) - 1)].rstrip("?*") if words else "any"


def _part_function(spark: str) -> Function:
    return Function("time", "BIGINT", (f"CAST({spark}(_1) AS BIGINT)",))


_NOW: Final = Function("", "TIMESTAMP", ("CURRENT_TIMESTAMP()",))
_JSON_OF: Final = "REGEXP_EXTRACT(TO_JSON(ARRAY(_1)), '(?s)^\\[(.*)\\]$', 1)"

TEXTS: Final[Mapping[str, Function]] = {
    "BTRIM": Function("text text?", "STRING", ("TRIM(_1)", "TRIM(BOTH _2 FROM _1)")),
    "ELT": Function("whole any any*", "_2"),
    "FROM_BASE64": Function("text", "STRING", ("DECODE(UNBASE64(_1), 'UTF-8')",)),
    "IS_ALPHA": Function("text", "BOOLEAN", (r"COALESCE(_1 RLIKE '^\p{L}+$', FALSE)",)),
    "IS_DECIMAL": Function("text", "BOOLEAN", ("NOT TRY_CAST(_1 AS DOUBLE) IS NULL",)),
    "IS_DIGIT": Function("text", "BOOLEAN", (r"COALESCE(_1 RLIKE '^\p{Nd}+$', FALSE)",)),
    "JSON_QUOTE": Function("text", "STRING", (f"IF(_1 IS NULL, NULL, {_JSON_OF})",)),
    "JSON_UNQUOTE": Function(
        "text", "STRING", ("COALESCE(IF(_1 LIKE '\"%\"', GET_JSON_OBJECT(CONCAT('[', _1, ']'), '$[0]'), NULL), _1)",)
    ),
    "LTRIM": Function("text text?", "STRING", ("LTRIM(_1)", "TRIM(LEADING _2 FROM _1)")),
    "PARSE_URL": Function("string string string?", "STRING", ("TRY_PARSE_URL(_1, _2)", "TRY_PARSE_URL(_1, _2, _3)")),
    "PRINTF": Function("text any*", "STRING"),
    "REGEXP": Function("text text", "BOOLEAN", ("_1 RLIKE _2",)),
    "REGEXP_EXTRACT": Function(
        "text text whole?",
        "STRING",
        ("IF(_1 RLIKE _2, REGEXP_EXTRACT(_1, _2, 0), NULL)", "IF(_1 RLIKE _2, REGEXP_EXTRACT(_1, _2, _3), NULL)"),
    ),
    "REGEXP_REPLACE": Function("text text text", "STRING", ("REGEXP_REPLACE(_1, _2, _3_plain)",)),
    "RTRIM": Function("text text?", "STRING", ("RTRIM(_1)", "TRIM(TRAILING _2 FROM _1)")),
    **{f"SHA{bits}": Function("bytes", "STRING", (f"SHA2(_1, {bits})",)) for bits in (224, 256, 384, 512)},
    "SPLIT": Function("text text", "ARRAY<STRING>", ("SPLIT(_1, _2_literal)",)),
    "SPLIT_INDEX": Function("text text whole", "STRING", ("GET(SPLIT(NULLIF(_1, ''), _2_literal), _3)",)),
    "STR_TO_MAP": Function(
        "string string? string?",
        "MAP<STRING, STRING>",
        ("STR_TO_MAP(_1, ',', '=')", "STR_TO_MAP(_1, _2, '=')", "STR_TO_MAP(_1, _2, _3)"),
    ),
    "TO_BASE64": Function("bytes", "STRING", ("BASE64(CAST(_1 AS BINARY))",)),
    "URL_DECODE": Function("text", "STRING", ("TRY_URL_DECODE(_1)",)),
}

TIMES: Final[Mapping[str, Function]] = {
    "CONVERT_TZ": Function(
        "time text text",
        "STRING",
        ("DATE_FORMAT(CONVERT_TIMEZONE(_2, _3, TRY_CAST(_1 AS TIMESTAMP_NTZ)), 'yyyy-MM-dd HH:mm:ss')",),
    ),
    "CURRENT_ROW_TIMESTAMP": _NOW,
    "DATE_FORMAT": Function("time string", "STRING", ("DATE_FORMAT(_1, _2)",)),
    "DAYOFMONTH": _part_function("DAYOFMONTH"),
    "DAYOFWEEK": _part_function("DAYOFWEEK"),
    "DAYOFYEAR": _part_function("DAYOFYEAR"),
    "FROM_UNIXTIME": Function("whole text?", "STRING", ("FROM_UNIXTIME(_1)", "FROM_UNIXTIME(_1, _2)")),
    "HOUR": _part_function("HOUR"),
    "MINUTE": _part_function("MINUTE"),
    "MONTH": _part_function("MONTH"),
    "NOW": _NOW,
    "PROCTIME": _NOW,
    "QUARTER": _part_function("QUARTER"),
    "SECOND": _part_function("SECOND"),
    "TO_DATE": Function("time text?", "DATE", ("TRY_CAST(_1 AS DATE)", "CAST(TRY_TO_TIMESTAMP(_1, _2) AS DATE)")),
    "TO_TIMESTAMP": Function("time text?", "TIMESTAMP", ("TRY_CAST(_1 AS TIMESTAMP)", "TRY_TO_TIMESTAMP(_1, _2)")),
    "TO_TIMESTAMP_LTZ": Function("any any", "TIMESTAMP"),
    "UNIX_TIMESTAMP": Function(
        "time? text?",
        "BIGINT",
        ("UNIX_TIMESTAMP()", "UNIX_SECONDS(TRY_CAST(_1 AS TIMESTAMP))", "UNIX_SECONDS(TRY_TO_TIMESTAMP(_1, _2))"),
    ),
    "WEEK": _part_function("WEEKOFYEAR"),
    "YEAR": _part_function("YEAR"),
}

NUMBERS: Final[Mapping[str, Function]] = {
    "RAND_INTEGER": Function(
        "whole whole?", "INT", ("CAST(FLOOR(RAND() * _1) AS INT)", "CAST(FLOOR(RAND(_1) * _2) AS INT)")
    ),
    "TRUNCATE": Function("number whole?", None),
}

COLLECTIONS: Final[Mapping[str, Function]] = {
    "ARRAY_APPEND": Function("array any", "_1", ("ARRAY_APPEND(_1, _2)",)),
    "ARRAY_CONCAT": Function("array array*", "_1"),
    "ARRAY_CONTAINS": Function("array any", "BOOLEAN", ("EXISTS(_1, x -> x <=> _2)",)),
    "ARRAY_POSITION": Function("array any", "INT", ("CAST(ARRAY_POSITION(_1, _2) AS INT)",)),
    "ARRAY_PREPEND": Function("array any", "_1", ("ARRAY_PREPEND(_1, _2)",)),
    "ARRAY_REMOVE": Function("array any", "_1", ("FILTER(_1, x -> NOT x <=> _2)",)),
    "ARRAY_REVERSE": Function("array", "_1", ("REVERSE(_1)",)),
    "ARRAY_SLICE": Function(
        "array whole whole?",
        "_1",
        (
            "FILTER(_1, (x, i) -> i >= IF(_2 < 0, SIZE(_1) + _2, _2 - 1))",
            "FILTER(_1, (x, i) -> i >= IF(_2 < 0, SIZE(_1) + _2, _2 - 1) "
            "AND i < CASE WHEN _3 < 0 THEN SIZE(_1) + _3 + 1 WHEN _3 = 0 THEN 1 ELSE _3 END)",
        ),
    ),
    "ARRAY_SORT": Function("array bool? bool?", "_1"),
    "CARDINALITY": Function("collection", "INT", ("CARDINALITY(_1)",)),
    "ELEMENT": Function(
        "array", "element", ("IF(SIZE(_1) > 1, RAISE_ERROR('ELEMENT of an array with several elements'), GET(_1, 0))",)
    ),
    "MAP_UNION": Function("map map*", "_1"),
    "ROW": Function("any*", None),
}

JSON: Final[Mapping[str, Function]] = {
    "JSON_ARRAY": Function("any*", "STRING"),
    "JSON_ARRAYAGG": Function("any option*", "STRING"),
    "JSON_EXISTS": Function("string string option*", "BOOLEAN"),
    "JSON_QUERY": Function("string string option*", "STRING"),
    "JSON_VALUE": Function("string string option*", "STRING"),
    "JSON_STRING": Function("any", "STRING", (f"IF(_1 IS NULL, NULL, {_JSON_OF})",)),
}

AGGREGATES: Final[Mapping[str, Function]] = {"COLLECT": Function("any", None, ("COLLECT_LIST(_1)",))}

TABLE: Final[Mapping[str, Function]] = {**TEXTS, **TIMES, **NUMBERS, **COLLECTIONS, **JSON, **AGGREGATES}

SPECIAL: Final = frozenset(
    {
        "ARRAY_AGG", "CAST", "CEIL", "CEILING", "COALESCE", "DESCRIPTOR", "EXTRACT", "FLOOR", "GREATEST", "IF",
        "IFNULL", "INITCAP", "JSON_OBJECT", "JSON_OBJECTAGG", "LEAST", "LISTAGG", "MAP", "NULLIF", "OVERLAY",
        "POSITION", "SUBSTRING", "TIMESTAMPADD", "TIMESTAMPDIFF", "TRIM", "TRY_CAST",
    }
)  # fmt: skip
"""Functions of Flink with their own syntax or their own translation."""

ABSENT: Final[Mapping[str, str]] = {
    "CURRENT_WATERMARK": "the watermark already drops late rows",
    "SOURCE_WATERMARK": "declare `event_time` on the source",
    "GROUP_ID": "name the grouping columns instead",
}
"""Functions of Flink without an equivalent in Spark, and the alternative for each."""
