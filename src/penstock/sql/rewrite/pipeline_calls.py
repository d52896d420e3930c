"""Functions and operators of pipelines that need more than a template, each with its rewrite for Spark."""

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.parse.dialects import SPARK, quote_spark_identifier
from penstock.sql.rewrite.json import write_nulls
from penstock.sql.rewrite.operators import OPERATORS
from penstock.sql.rewrite.pipeline_datetime import TIME_CALLS, rewrite_extract
from penstock.sql.rewrite.templates import Rewrite, call, fill_template, rename_call
from penstock.sql.types.arrow_types import arrow_type
from penstock.sql.types.long_decimals import SPARK_DIGITS


def _cast_text(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), "STRING", dialect=SPARK)


# Texts and bytes


def _rewrite_elt(node: exp.Expr) -> exp.Expr:
    """Rewrite ELT: one of several values, as a string. An index without a value gives null."""
    index, *choices = node.expressions
    return fill_template("GET(_1, TRY_CAST(_2 - 1 AS INT))", call("ARRAY", *map(_cast_text, choices)), index)


def _rewrite_digest(node: exp.Expr) -> exp.Expr:
    value, algorithm = node.expressions
    name = algorithm.name.lower()
    template = "UNHEX(MD5(_1))" if name == "md5" else f"UNHEX(SHA2(_1, {name.removeprefix('sha')}))"
    return fill_template(template, value)


_CODINGS: Final[Mapping[tuple[str, str], str]] = {
    ("ENCODE", "hex"): "LOWER(HEX(CAST(_1 AS BINARY)))",
    ("ENCODE", "base64"): "TRIM(TRAILING '=' FROM BASE64(CAST(_1 AS BINARY)))",
    ("DECODE", "hex"): "UNHEX(_1)",
    ("DECODE", "base64"): "UNBASE64(_1)",
}


def _rewrite_encoding(node: exp.Expr) -> exp.Expr | None:
    """Rewrite ENCODE and DECODE to hex or base64. With the name of a character encoding they are Spark's functions."""
    value, coding = node.expressions
    template = _CODINGS.get((node.name.upper(), coding.name.lower()))
    return None if template is None else fill_template(template, value)


def _rewrite_decimal(node: exp.Expr) -> exp.Expr:
    text, *sizes = node.expressions
    number: exp.Expr = _cast_text(text)
    if int(sizes[0].name) <= SPARK_DIGITS:
        number = call("PENSTOCK_ROW_DECIMAL", number, *(exp.cast(size.copy(), "BIGINT") for size in sizes))
    return exp.cast(number, f"DECIMAL({sizes[0].name}, {sizes[1].name})", dialect=SPARK)


def _rewrite_arrow_cast(node: exp.Expr) -> exp.Expr | None:
    kind = arrow_type(node.expressions[1].name)
    return None if kind is None else exp.cast(node.expressions[0].copy(), kind, dialect=SPARK)


# Lists and structs


def _rewrite_get_field(node: exp.Expr) -> exp.Expr:
    """Rewrite GET_FIELD of a struct or of a map."""
    return exp.Bracket(this=node.expressions[0].copy(), expressions=[node.expressions[1].copy()])


def _filter_structs(condition: str, around: str = "{}") -> Rewrite:
    """Build the rewrite that filters the structs of a list by a condition on a named field."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        structs, name, value = node.expressions
        wanted = condition.format(f"x.{quote_spark_identifier(name.name)}")
        return fill_template(around.format(f"FILTER(_1, x -> NOT x IS NULL AND {wanted})"), structs, value)

    return rewrite


def _project_field(node: exp.Expr) -> exp.Expr:
    """Rewrite ARRAY_STRUCT_FIELD: one field of all structs of a list."""
    structs, name = node.expressions
    return fill_template(f"TRANSFORM(_1, x -> CAST(x.{quote_spark_identifier(name.name)} AS STRING))", structs)


def _zip_arrays(node: exp.Expr) -> exp.Expr:
    """Rewrite _GS_ZIP_ARRAYS: lists of one length become one list of structs."""
    places = range(1, len(node.expressions) + 1)
    absent = " OR ".join(f"_{n} IS NULL" for n in places)
    unlike = " OR ".join(f"SIZE(_1) <> SIZE(_{n})" for n in places[1:])
    values = ", ".join(f"'f{n - 1}', GET(_{n}, i)" for n in places)
    wrong = "RAISE_ERROR('[ROW_FUNCTION] _gs_zip_arrays is given lists of unlike lengths. SQLSTATE: 22023')"
    zipped = f"TRANSFORM(_1, (x, i) -> NAMED_STRUCT({values}))"
    template = f"CASE WHEN {absent} THEN NULL WHEN {unlike} THEN {wrong} ELSE {zipped} END"
    return fill_template(template, *node.expressions)


_ORDERS: Final[Mapping[tuple[str, str], str]] = {
    ("ASC", "NULLS FIRST"): "SORT_ARRAY(_1)",
    ("ASC", "NULLS LAST"): "ARRAY_SORT(_1)",
    ("DESC", "NULLS FIRST"): "REVERSE(ARRAY_SORT(_1))",
    ("DESC", "NULLS LAST"): "SORT_ARRAY(_1, FALSE)",
}


def _rewrite_array_sort(node: exp.Expr) -> exp.Expr:
    array, *choices = node.expressions
    order = choices[0].name.upper() if choices else "ASC"
    nulls = choices[1].name.upper() if len(choices) > 1 else "NULLS FIRST"
    return fill_template(_ORDERS[order, nulls], array)


# JSON

_NO_TEXT: Final = exp.cast(exp.null(), "STRING", dialect=SPARK)


def _json_lookup(name: str, *usual: str | None) -> Rewrite:
    """Build a JSON lookup by path, with the `usual` defaults. Its type is ignored: Spark has one string type."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        document, path, *choices = node.expressions
        chosen = [c.copy() for c in choices[1:]]
        missing = [_NO_TEXT.copy() if u is None else exp.Literal.string(u) for u in usual[len(chosen) :]]
        given = [_cast_text(c) if usual[n] is None else _upper_choice(c) for n, c in enumerate(chosen)]
        return call(name, _cast_text(document), _cast_text(path), *given, *missing)

    return rewrite


def _upper_choice(choice: exp.Expr) -> exp.Expr:
    return exp.Literal.string(choice.name.upper()) if isinstance(choice, exp.Literal) else exp.Literal.string("NULL")


def _encode_values(values: list[exp.Expr]) -> exp.Expr:
    """Encode values of any types as a JSON string."""
    named = [part for n, v in enumerate(values) for part in (exp.Literal.string(f"_{n}"), v.copy())]
    return write_nulls(call("NAMED_STRUCT", *named))


def _json_array(*, absent: bool) -> Rewrite:
    def rewrite(node: exp.Expr) -> exp.Expr:
        if not node.expressions:
            return exp.Literal.string("[]")
        return call("PENSTOCK_ROW_JSON_ARRAY", _encode_values(node.expressions), exp.convert(absent))

    return rewrite


def _json_object(*, absent: bool) -> Rewrite:
    def rewrite(node: exp.Expr) -> exp.Expr:
        keys, values = node.expressions[::2], node.expressions[1::2]
        if not keys:
            return exp.Literal.string("{}")
        names = call("TO_JSON", call("ARRAY", *map(_cast_text, keys)))
        return call("PENSTOCK_ROW_JSON_OBJECT", names, _encode_values(values), exp.convert(absent))

    return rewrite


# Operators


_SLICE: Final = "FILTER(_1, (x, i) -> i >= IF(_2 < 0, SIZE(_1) + _2, _2 - 1) AND i < IF(_3 < 0, SIZE(_1) + _3 + 1, _3))"


def _rewrite_element(node: exp.Expr) -> exp.Expr | None:
    """Rewrite `a[1]`, the first element of a list; a missing one is null. A string is a field name or a map key."""
    keys = node.expressions
    if len(keys) != 1:
        return None
    (key,) = keys
    if isinstance(key, exp.Slice):
        start = key.this.copy() if key.this is not None else exp.Literal.number(1)
        end = key.expression.copy() if key.expression is not None else exp.Literal.number(-1)
        return fill_template(_SLICE, node.this, start, end)
    if isinstance(key, exp.Literal) and key.is_string:
        return None
    if (operand_kind(node) or "").startswith("MAP"):
        return fill_template("TRY_ELEMENT_AT(_1, _2)", node.this, key)
    return fill_template("TRY_ELEMENT_AT(_1, TRY_CAST(NULLIF(_2, 0) AS INT))", node.this, key)


def _fill_operator(template: str) -> Rewrite:
    """Build the rewrite of an operator with two sides."""
    return lambda node: fill_template(template, node.this, node.expression)


def _time_of_day(_: exp.Expr) -> exp.Expr:
    """Rewrite CURRENT_TIME as a string: Spark has no type for it that sinks can write."""
    return fill_template("DATE_FORMAT(CURRENT_TIMESTAMP(), 'HH:mm:ss.SSSSSS')")


PIPELINE_OPERATORS: Final[Mapping[type[exp.Expr], Rewrite]] = {
    exp.ArrayContainsAll: _fill_operator("FORALL(_2, x -> ARRAY_CONTAINS(_1, x))"),  # a @> b
    exp.Bracket: _rewrite_element,
    exp.CurrentTime: _time_of_day,
    exp.Div: OPERATORS[exp.Div],
    exp.Extract: rewrite_extract,
    exp.Hex: lambda node: fill_template("LOWER(HEX(_1))", node.this),
    exp.Is: OPERATORS[exp.Is],
    exp.RegexpILike: _fill_operator("_1 RLIKE CONCAT('(?i)', _2)"),  # a ~* 'x'
    exp.SimilarTo: OPERATORS[exp.SimilarTo],
}

PIPELINE_CALLS: Final[Mapping[str, Rewrite]] = {
    **TIME_CALLS,
    "ARRAY_CAT": rename_call("CONCAT"),
    "ARRAY_CONCAT": rename_call("CONCAT"),
    "ARRAY_FILTER": _filter_structs("{} <=> _2"),
    "ARRAY_FILTER_FIRST": _filter_structs("{} <=> _2", "GET({}, 0)"),
    "ARRAY_FILTER_IN": _filter_structs("COALESCE(ARRAY_CONTAINS(_2, {}), FALSE)"),
    "ARRAY_SORT": _rewrite_array_sort,
    "ARRAY_STRUCT_FIELD": _project_field,
    "ARROW_CAST": _rewrite_arrow_cast,
    "COALESCE_META": rename_call("COALESCE"),
    "DECODE": _rewrite_encoding,
    "DIGEST": _rewrite_digest,
    "ELT": _rewrite_elt,
    "ENCODE": _rewrite_encoding,
    "GET_FIELD": _rewrite_get_field,
    "JSON_ARRAY": _json_array(absent=False),
    "JSON_ARRAY_ABSENT_ON_NULL": _json_array(absent=True),
    "JSON_OBJECT": _json_object(absent=False),
    "JSON_OBJECT_ABSENT_ON_NULL": _json_object(absent=True),
    "JSON_QUERY": _json_lookup("PENSTOCK_ROW_JSON_QUERY", "WITHOUT ARRAY", "NULL", "NULL"),
    "JSON_VALUE": _json_lookup("PENSTOCK_ROW_JSON_VALUE", "NULL", None, "NULL", None),
    "LIST_CONCAT": rename_call("CONCAT"),
    "MAKE_ARRAY": rename_call("ARRAY"),
    "MAKE_LIST": rename_call("ARRAY"),
    "ROW": rename_call("STRUCT"),
    "TO_DECIMAL_ARB_FROM_STRING": _rewrite_decimal,
    "_GS_ZIP_ARRAYS": _zip_arrays,
}
