"""The functions of pipelines that Spark lacks or that behave differently there: a table of data.

It has the form of `flink_functions`. Functions whose names begin with `penstock_row_` belong to `clients.jvm.udfs`;
they accept only the declared types, so every argument is cast.
"""

from collections.abc import Mapping
from typing import Final

from penstock.sql.catalog.flink_functions import COLLECTIONS, Function
from penstock.sql.catalog.flink_functions import JSON as FLINK_JSON

_S: Final = "STRING"
_B: Final = "BIGINT"
_ONE: Final = "CAST(1 AS BIGINT)"
_NO_NUMBER: Final = "CAST(NULL AS BIGINT)"


def _row_call(name: str, *given: str) -> str:
    """Build a call of one of the Java functions: for each argument its type, or an expression to pass instead."""
    parts = (f"CAST(_{n} AS {g})" if g in (_S, _B) else g for n, g in enumerate(given, 1))
    return f"PENSTOCK_ROW_{name.upper()}({', '.join(parts)})"


def _raise_row_error(text: str) -> str:
    """Build a call that raises an error about a single row."""
    return f"RAISE_ERROR('[ROW_FUNCTION] {text}. SQLSTATE: 22023')"


_NONE: Final = "CAST(ARRAY() AS ARRAY<BIGINT>)"
_SERIES: Final = Function(
    "whole whole whole?",
    "ARRAY<BIGINT>",
    (
        f"IF(_1 > _2, {_NONE}, SEQUENCE(CAST(_1 AS BIGINT), CAST(_2 AS BIGINT), CAST(1 AS BIGINT)))",
        f"CASE WHEN _3 = 0 THEN {_raise_row_error('a series takes steps of 1 or -1, and not of 0')} "
        f"WHEN _3 > 0 AND _1 > _2 OR _3 < 0 AND _1 < _2 THEN {_NONE} "
        "ELSE SEQUENCE(CAST(_1 AS BIGINT), CAST(_2 AS BIGINT), CAST(_3 AS BIGINT)) END",
    ),
)
_UUID7: Final = (
    "CONCAT(LOWER(SUBSTRING(LPAD(HEX(UNIX_MILLIS(CURRENT_TIMESTAMP())), 12, '0'), 1, 8)), '-', "
    "LOWER(SUBSTRING(LPAD(HEX(UNIX_MILLIS(CURRENT_TIMESTAMP())), 12, '0'), 9, 4)), '-7', "
    "SUBSTRING(UUID(), 16, 3), '-', SUBSTRING(UUID(), 20))"
)

TEXTS: Final[Mapping[str, Function]] = {
    "BIN": Function("whole", _S, (_row_call("conv_base", "CAST(CAST(_1 AS BIGINT) AS STRING)", "'10'", "'2'"),)),
    "CHARLENGTH": Function("text", "INT", ("CHAR_LENGTH(_1)",)),
    "ELT": Function("whole any any*", _S),
    "INSTR": Function(
        "text text whole? whole?",
        _B,
        ("CAST(INSTR(_1, _2) AS BIGINT)", _row_call("instr", _S, _S, _B, _ONE), _row_call("instr", _S, _S, _B, _B)),
    ),
    "LOCATE": Function(
        "text text whole?", _B, ("CAST(LOCATE(_1, _2) AS BIGINT)", "CAST(LOCATE(_1, _2, CAST(_3 AS INT)) AS BIGINT)")
    ),
    "LOWERCASE": Function("text", _S, ("LOWER(_1)",)),
    "PARSE_URL": Function(
        "string string string?", _S, ("TRY_PARSE_URL(_1, UPPER(_2))", "TRY_PARSE_URL(_1, UPPER(_2), _3)")
    ),
    "REGEXP": Function("text text", "BOOLEAN", ("_1 RLIKE _2",)),
    "REGEXP_COUNT": Function("text text", _B, (_row_call("regexp_count", _S, _S),)),
    "REGEXP_EXTRACT": Function(
        "text text whole?", _S, tuple(_row_call("regexp_extract", _S, _S, group) for group in (_NO_NUMBER, _B))
    ),
    "REGEXP_EXTRACT_ALL": Function(
        "text text whole?",
        "ARRAY<STRING>",
        tuple(_row_call("regexp_extract_all", _S, _S, group) for group in (_NO_NUMBER, _B)),
    ),
    "REGEXP_INSTR": Function(
        "text text whole? whole?",
        _B,
        tuple(_row_call("regexp_instr", _S, _S, *places) for places in ((_ONE, _ONE), (_B, _ONE), (_B, _B))),
    ),
    "REGEXP_LIKE": Function("text text string?", "BOOLEAN", ("_1 RLIKE _2", "_1 RLIKE CONCAT('(?', _3, ')', _2)")),
    "REGEXP_MATCH": Function(
        "text text string?",
        "ARRAY<STRING>",
        (_row_call("regexp_match", _S, _S), _row_call("regexp_match", _S, "CONCAT('(?', _3, ')', _2)")),
    ),
    "REGEXP_REPLACE": Function("text text text", _S, (_row_call("regexp_replace", _S, _S, _S),)),
    "REGEXP_SUBSTR": Function("text text", _S, (_row_call("regexp_extract", _S, _S, _NO_NUMBER),)),
    "SIMILAR": Function("text text", "BOOLEAN", ("_1 RLIKE _2",)),
    "SPLIT": Function("text text", "ARRAY<STRING>", ("IF(_2 = '', SPLIT(_1, ''), SPLIT(_1, _2_literal))",)),
    "SPLIT_INDEX": Function(
        "text text whole", _S, ("IF(_2 = '', IF(_3 = 0, _1, NULL), GET(SPLIT(_1, _2_literal), TRY_CAST(_3 AS INT)))",)
    ),
    "STRING_TO_ARRAY": Function(
        "text text text?",
        "ARRAY<STRING>",
        ("SPLIT(_1, _2_literal)", "TRANSFORM(SPLIT(_1, _2_literal), x -> NULLIF(x, _3))"),
    ),
    "TO_HEX": Function("whole", _S, ("LOWER(HEX(_1))",)),
    **dict.fromkeys(
        ("TRANSLATE", "TRANSLATE3"),
        Function("text text text", _S, ("IF(_2 IS NULL, _1, TRANSLATE(_1, _2, COALESCE(_3, '')))",)),
    ),
    "UNHEX": Function("text", "BINARY", ("UNHEX(_1)",)),
    "UPPERCASE": Function("text", _S, ("UPPER(_1)",)),
    "URL_DECODE": Function("text", _S, (_row_call("url_decode", _S),)),
    "URL_ENCODE": Function("text", _S, ("URL_ENCODE(_1)",)),
    "UUID7": Function("", _S, (_UUID7,)),
    "_GS_CONV_BASE": Function("text any any", _S, (_row_call("conv_base", _S, _S, _S),)),
    "_GS_SPLIT_STRING_TO_ARRAY": Function("text text?", "ARRAY<STRING>", ("SPLIT(_1, ' ')", "SPLIT(_1, _2_literal)")),
}

BYTES: Final[Mapping[str, Function]] = {
    "COALESCE_META": Function("any any*", "_1"),
    "DECODE": Function("any literal", None),
    "DIGEST": Function("bytes literal", "BINARY"),
    "ENCODE": Function("any literal", None),
    "REVERSE_BYTES32": Function("bytes", "BINARY", (_row_call("reverse_bytes", "CAST(_1 AS BINARY)"),)),
    **{f"SHA{bits}": Function("bytes", "BINARY", (f"UNHEX(SHA2(_1, {bits}))",)) for bits in (224, 256, 384, 512)},
    "_GS_BYTE_TO_HEX": Function("bytes", _S, ("LOWER(HEX(CAST(_1 AS BINARY)))",)),
    "_GS_FROM_BASE58": Function("text", "BINARY", (_row_call("from_base58", _S),)),
    "_GS_HEX_TO_BYTE": Function("text", "BINARY", (_row_call("hex_to_byte", _S),)),
    "_GS_KECCAK256": Function("text", _S, (_row_call("keccak256", _S),)),
    "_GS_XXHASH": Function("text", _S, (_row_call("xxhash", _S),)),
}

TIMES: Final[Mapping[str, Function]] = {
    "DATE_BIN": Function("any time time?", "TIMESTAMP"),
    "FROM_UNIXTIME": Function("whole", "TIMESTAMP", ("TIMESTAMP_SECONDS(CAST(_1 AS BIGINT))",)),
    "TODAY": Function("", "DATE", ("CURRENT_DATE()",)),
    "TO_CHAR": Function("time any", _S),
    "TO_DATE": Function("any literal?", "DATE"),
    "TO_TIMESTAMP": Function("any literal?", "TIMESTAMP"),
    "TO_TIMESTAMP_MICROS": Function("any", "TIMESTAMP"),
    "TO_TIMESTAMP_MILLIS": Function("any", "TIMESTAMP"),
    "TO_TIMESTAMP_NANOS": Function("any", "TIMESTAMP"),
    "TO_TIMESTAMP_SECONDS": Function("any", "TIMESTAMP"),
    "TO_UNIXTIME": Function("any", _B, ("UNIX_SECONDS(CAST(_1 AS TIMESTAMP))",)),
}

NUMBERS: Final[Mapping[str, Function]] = {
    "ARROW_CAST": Function("any literal", None),
    "LOG": Function("number number?", "DOUBLE", ("LOG10(_1)", "LOG(_1, _2)")),
    "TO_DECIMAL_ARB_FROM_STRING": Function("text any any", None),
    "TRUNC": Function(
        "number whole?",
        "DOUBLE",
        (
            "CAST(IF(_1 < 0, CEIL(_1), FLOOR(_1)) AS DOUBLE)",
            "CAST(SIGN(_1) * FLOOR(ABS(_1) * POWER(10, _2)) / POWER(10, _2) AS DOUBLE)",
        ),
    ),
}

_AT: Final = Function("array whole", "element", ("TRY_ELEMENT_AT(_1, TRY_CAST(NULLIF(_2, 0) AS INT))",))
_HAS: Final = Function("array any", "BOOLEAN", ("ARRAY_CONTAINS(_1, _2)",))
_POSITION: Final = Function("array any", _B, ("NULLIF(ARRAY_POSITION(_1, _2), 0)",))

LISTS: Final[Mapping[str, Function]] = {
    **dict.fromkeys(("ARRAY_APPEND", "ARRAY_PUSH_BACK", "LIST_APPEND"), COLLECTIONS["ARRAY_APPEND"]),
    **dict.fromkeys(("ARRAY_CAT", "ARRAY_CONCAT", "LIST_CONCAT"), Function("array array*", "_1")),
    **dict.fromkeys(("ARRAY_ELEMENT", "ARRAY_EXTRACT", "LIST_ELEMENT", "LIST_EXTRACT"), _AT),
    "ARRAY_ENUMERATE": Function(
        "array", None, ("TRANSFORM(_1, (x, i) -> NAMED_STRUCT('index', CAST(i AS BIGINT), 'value', x))",)
    ),
    "ARRAY_FILTER": Function("array literal any", "_1"),
    "ARRAY_FILTER_FIRST": Function("array literal any", "element"),
    "ARRAY_FILTER_IN": Function("array literal array", "_1"),
    **dict.fromkeys(("ARRAY_HAS", "ARRAY_CONTAINS", "LIST_CONTAINS", "LIST_HAS"), _HAS),
    **dict.fromkeys(
        ("ARRAY_HAS_ALL", "LIST_HAS_ALL"),
        Function("array array", "BOOLEAN", ("FORALL(_2, x -> ARRAY_CONTAINS(_1, x))",)),
    ),
    **dict.fromkeys(("ARRAY_HAS_ANY", "LIST_HAS_ANY"), Function("array array", "BOOLEAN", ("ARRAYS_OVERLAP(_1, _2)",))),
    **dict.fromkeys(("ARRAY_POSITION", "ARRAY_INDEXOF", "LIST_POSITION", "LIST_INDEXOF"), _POSITION),
    "ARRAY_POP_BACK": Function("array", "_1", ("FILTER(_1, (x, i) -> i < SIZE(_1) - 1)",)),
    "ARRAY_POP_FRONT": Function("array", "_1", ("FILTER(_1, (x, i) -> i > 0)",)),
    **dict.fromkeys(
        ("ARRAY_PREPEND", "ARRAY_PUSH_FRONT", "LIST_PREPEND"), Function("any array", "_2", ("ARRAY_PREPEND(_2, _1)",))
    ),
    "ARRAY_REMOVE": Function("array any", "_1", ("FILTER(_1, (x, i) -> i <> ARRAY_POSITION(_1, _2) - 1)",)),
    "ARRAY_REMOVE_ALL": Function("array any", "_1", ("FILTER(_1, x -> NOT x <=> _2)",)),
    "ARRAY_REPLACE_ALL": Function("array any any", "_1", ("TRANSFORM(_1, x -> IF(x <=> _2, _3, x))",)),
    "ARRAY_REVERSE": COLLECTIONS["ARRAY_REVERSE"],
    **dict.fromkeys(("ARRAY_SLICE", "LIST_SLICE"), COLLECTIONS["ARRAY_SLICE"]),
    "ARRAY_SORT": Function("array literal? literal?", "_1"),
    "ARRAY_STRUCT_FIELD": Function("array literal", "ARRAY<STRING>"),
    **dict.fromkeys(
        ("ARRAY_TO_STRING", "LIST_TO_STRING"),
        Function("array text text?", _S, ("ARRAY_JOIN(_1, _2)", "ARRAY_JOIN(_1, _2, _3)")),
    ),
    **dict.fromkeys(("ARRAY_EMPTY", "EMPTY", "LIST_EMPTY"), Function("array", "BOOLEAN", ("SIZE(_1) = 0",))),
    "GENERATE_SERIES": _SERIES,
    "GET_FIELD": Function("any literal", None),
    **dict.fromkeys(("MAKE_ARRAY", "MAKE_LIST"), Function("any*", None)),
    "MAP_EXTRACT": Function("map any", None, ("IF(MAP_CONTAINS_KEY(_1, _2), ARRAY(ELEMENT_AT(_1, _2)), ARRAY())",)),
    "RANGE": Function(
        "whole whole? whole?",
        "ARRAY<BIGINT>",
        (
            f"IF(_1 <= 0, {_NONE}, SEQUENCE(CAST(0 AS BIGINT), _1 - 1, CAST(1 AS BIGINT)))",
            f"IF(_1 >= _2, {_NONE}, SEQUENCE(CAST(_1 AS BIGINT), CAST(_2 - 1 AS BIGINT), CAST(1 AS BIGINT)))",
            f"CASE WHEN _3 = 0 THEN {_raise_row_error('a range takes steps of 1 or -1, and not of 0')} "
            f"WHEN _3 > 0 AND _1 >= _2 OR _3 < 0 AND _1 <= _2 THEN {_NONE} "
            "ELSE SEQUENCE(CAST(_1 AS BIGINT), _2 - CAST(SIGN(_3) AS BIGINT), CAST(_3 AS BIGINT)) END",
        ),
    ),
    "ROW": Function("any*", None),
    "TO_LARGE_LIST": Function("array", "_1", ("_1",)),
    "_GS_GENERATE_SERIES": _SERIES,
    "_GS_MAP_TO_ARRAY_STRUCT": Function("map", None, ("MAP_ENTRIES(_1)",)),
    "_GS_ZIP_ARRAYS": Function("array array array? array?", None),
}

JSON: Final[Mapping[str, Function]] = {
    "IS_JSON": Function(
        "text option?", "BOOLEAN", (_row_call("is_json", _S, "'VALUE'"), _row_call("is_json", _S, "UPPER(_2)"))
    ),
    "JSON": Function("text", _S, (_row_call("json", _S, "TRUE"),)),
    "JSON_ARRAY": Function("any*", _S),
    "JSON_ARRAY_ABSENT_ON_NULL": Function("any*", _S),
    "JSON_EXISTS": Function(
        "text text option?",
        "BOOLEAN",
        (_row_call("json_exists", _S, _S, "'FALSE'"), _row_call("json_exists", _S, _S, "UPPER(_3)")),
    ),
    "JSON_OBJECT": Function("any*", _S),
    "JSON_OBJECT_ABSENT_ON_NULL": Function("any*", _S),
    "JSON_QUERY": Function("text text option? option? option? option?", _S),
    "JSON_QUOTE": Function("text", _S, (_row_call("json_quote", _S),)),
    "JSON_STRING": FLINK_JSON["JSON_STRING"],
    "JSON_UNQUOTE": Function("text", _S, (_row_call("json_unquote", _S),)),
    "JSON_VALUE": Function("text text option? option? text? option? text?", _S),
    "PARSE_JSON": Function("text bool?", _S, (_row_call("json", _S, "TRUE"),) * 2),
    "TRY_PARSE_JSON": Function("text bool?", _S, (_row_call("json", _S, "FALSE"),) * 2),
    "_GS_JSON_OBJECTS_TO_CLICKHOUSE_TUPLES": Function(
        "text array", _S, (_row_call("clickhouse_tuples", _S, "TO_JSON(_2)"),)
    ),
}

PIPELINE_TABLE: Final[Mapping[str, Function]] = {**TEXTS, **BYTES, **TIMES, **NUMBERS, **LISTS, **JSON}

TRANSLATED: Final = frozenset(
    {"ARRAY_LENGTH", "CAST", "ENDS_WITH", "LIST_LENGTH", "STARTS_WITH", "STRPOS", "TRY_CAST", "UNNEST"}
)
"""Functions that Spark names differently. The parser knows both names."""

OPTIONS: Final[Mapping[str, Mapping[int, tuple[str, ...]]]] = {
    "ARRAY_SORT": {1: ("ASC", "DESC"), 2: ("NULLS FIRST", "NULLS LAST")},
    "DIGEST": {1: ("md5", "sha224", "sha256", "sha384", "sha512")},
    "IS_JSON": {1: ("VALUE", "OBJECT", "ARRAY", "SCALAR")},
    "JSON_EXISTS": {2: ("FALSE", "TRUE", "UNKNOWN", "ERROR")},
    "JSON_QUERY": {
        2: ("STRING",),
        3: ("WITHOUT ARRAY", "WITH CONDITIONAL ARRAY", "WITH UNCONDITIONAL ARRAY"),
        4: ("NULL", "EMPTY ARRAY", "EMPTY OBJECT", "ERROR"),
        5: ("NULL", "EMPTY ARRAY", "EMPTY OBJECT", "ERROR"),
    },
    "JSON_VALUE": {2: ("STRING", "VARCHAR", "CHAR"), 3: ("NULL", "ERROR", "DEFAULT"), 5: ("NULL", "ERROR", "DEFAULT")},
}
"""The allowed string literals of an argument, by its position."""

_DIGITS: Final = "CAST(… AS DECIMAL(100, 18)) makes a decimal of up to 1000 digits, and operators compute with it"
_GROUPS: Final = "a transform can only project, filter and unite rows; group them in a model of a project"
PIPELINE_ABSENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(("TO_DECIMAL_ARB_FROM_INT", "TRY_TO_DECIMAL_ARB_FROM_STRING"), _DIGITS),
    **{
        f"DECIMAL_ARB_{word}": _DIGITS
        for word in (
            "ABS", "ADD", "ARRAY_MAX", "ARRAY_MIN", "ARRAY_SORT", "DIV", "EQ", "GREATEST", "GT", "GTE", "LEAST", "LT",
            "LTE", "MOD", "MUL", "NEG", "NEQ", "RESCALE", "RESTAMP", "SUB", "TO_SORT_KEY", "TO_STRING",
        )
    },
    **{f"JSON_{kind}AGG_{nulls}_ON_NULL": _GROUPS for kind in ("ARRAY", "OBJECT") for nulls in ("NULL", "ABSENT")},
}  # fmt: skip
"""Functions without an equivalent, and the alternative for each."""
