"""Rewrite Flink's JSON functions with Spark's `get_json_object`, `to_json` and variants.

A path is translated to Spark's syntax: `lax` and `strict` are removed, and quoted names get single quotes.
"""

import re
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from penstock.sql.rewrite.templates import Rewrite, call, fill_template
from penstock.sql.types.flink_inference import named_argument

_MODE: Final = re.compile(r"^\s*(lax|strict)\s+", re.IGNORECASE)
_QUOTED_NAME: Final = re.compile(r"""\.?\[\s*(?:"([^"\]]*)"|'([^'\]]*)')\s*\]""")

_TEXT: Final = "GET_JSON_OBJECT(_1, _2)"
_VALUE: Final = "TRY_VARIANT_GET(TRY_PARSE_JSON(_1), _2, 'variant')"
_NESTED: Final = f"LEFT({_TEXT}, 1) IN ('{{', '[') AND NOT SCHEMA_OF_VARIANT({_VALUE}) <=> 'STRING'"
_NESTED_ANYWHERE: Final = f"LEFT({_TEXT}, 1) IN ('{{', '[')"
"""The test for a path with `*`, which variants do not support. A text that begins with a bracket counts as an array."""
_SCALAR: Final = f"IF({_NESTED}, NULL, {_TEXT})"
_QUERY: Final = f"IF({_NESTED}, {_TEXT}, NULL)"
_THERE: Final = f"NOT {_VALUE} IS NULL"


def _parse_path(path: exp.Expr) -> tuple[exp.Expr, bool]:
    """Translate a path to Spark's syntax. Also return whether it is lax, so that a missing value is not an error."""
    if not isinstance(path, exp.Literal):
        return path, False
    mode = _MODE.match(path.name)
    plain = _MODE.sub("", path.name)
    spelled = _QUOTED_NAME.sub(lambda found: f"['{found[1] if found[1] is not None else found[2]}']", plain)
    return exp.Literal.string(spelled), mode is not None and mode[1].lower() == "lax"


def _rewrite_json_query(node: exp.Expr) -> exp.Expr | None:
    """Rewrite JSON_QUERY: an object or an array. Other values are returned only with a wrapper."""
    match wrapper := named_argument(node, "WRAPPER"):
        case exp.Literal() if wrapper.name == "CONDITIONAL":
            whole = f"IF({_NESTED}, {_TEXT}, CONCAT('[', TO_JSON({_VALUE}), ']'))"
        case exp.Literal() if wrapper.name != "NEVER":
            whole = f"CONCAT('[', TO_JSON({_VALUE}), ']')"
        case _:
            whole = _QUERY
    return _extract_path(node, whole)


def _extract_path(node: exp.Expr, template: str) -> exp.Expr | None:
    """Rewrite JSON_VALUE or JSON_QUERY: a part of a document as a string, or as the type after RETURNING."""
    if len(node.expressions) < 2:
        return None
    document = node.expressions[0]
    path, lax = _parse_path(node.expressions[1])
    made = _evaluate_once(template.replace(_NESTED, _NESTED_ANYWHERE) if "*" in path.name else template, document, path)
    returning = named_argument(node, "RETURNING")
    if isinstance(returning, exp.Cast):
        made = _cast_text(made, returning.to)
    empty, error = _fallback_value(node, "EMPTY"), _fallback_value(node, "ERROR")
    if empty is None and error is None:
        return made
    kind = returning.to if isinstance(returning, exp.Cast) else exp.DataType.build("STRING")
    empty = _cast_fallback(empty, kind)
    otherwise = error = _cast_fallback(error, kind)
    if lax and empty != error:
        leads_nowhere = fill_template(f"NOT TRY_PARSE_JSON(_1) IS NULL AND {_VALUE} IS NULL", document, path)
        otherwise = exp.If(this=leads_nowhere, true=empty, false=error)
    return fill_template("IF(_1 IS NULL, NULL, COALESCE(_2, _3))", document, made, otherwise)


def _evaluate_once(template: str, document: exp.Expr, path: exp.Expr) -> exp.Expr:
    """Fill a template that uses the document several times. A computed document is evaluated only once."""
    if isinstance(document, exp.Column | exp.Literal):
        return fill_template(template, document, path)
    inner = template.replace("_1", "d")
    return fill_template(f"GET(TRANSFORM(ARRAY(_1), d -> {inner}), 0)", document, path)


def _cast_text(text: exp.Expr, kind: exp.DataType) -> exp.Expr:
    if kind.this is exp.DType.ARRAY:
        return call("FROM_JSON", text, exp.Literal.string(kind.sql("spark")))
    if kind.this in exp.DataType.TEXT_TYPES:
        return text
    return exp.TryCast(this=text, to=kind.copy(), safe=True)


def _fallback_value(node: exp.Expr, event: str) -> exp.Expr | None:
    """Return the value for an event; None if it is null."""
    match found := named_argument(node, event):
        case None | exp.Null():
            return None
        case exp.Literal() if found.is_string and found.name == "ERROR":
            return call("RAISE_ERROR", exp.Literal.string(f"{node.name.upper()} found nothing to give"))
        case exp.Literal() if found.is_string and found.name.startswith("EMPTY "):
            return exp.Literal.string("[]" if found.name.endswith("ARRAY") else "{}")
        case _:
            return found


def _cast_fallback(value: exp.Expr | None, kind: exp.DataType) -> exp.Expr:
    if value is None:
        return exp.null()
    return value.copy() if isinstance(value, exp.Anonymous) else exp.Cast(this=value.copy(), to=kind.copy())


def _rewrite_json_exists(node: exp.Expr) -> exp.Expr | None:
    """Rewrite JSON_EXISTS. A path without a value is an error, unless the path is lax."""
    if len(node.expressions) < 2:
        return None
    document = node.expressions[0]
    path, lax = _parse_path(node.expressions[1])
    there = _evaluate_once(f"{_THERE} AND NOT IS_VARIANT_NULL({_VALUE})", document, path)
    match otherwise := named_argument(node, "ERROR"):
        case exp.Literal() if otherwise.name == "TRUE":
            error: exp.Expr = exp.true()
        case exp.Literal() if otherwise.name == "UNKNOWN":
            error = exp.null()
        case exp.Literal() if otherwise.name == "ERROR":
            error = call("RAISE_ERROR", exp.Literal.string("JSON_EXISTS found nothing"))
        case _:
            error = exp.false()
    if lax and not isinstance(error, exp.Boolean):
        error = fill_template("IF(TRY_PARSE_JSON(_1) IS NULL, _2, FALSE)", document, error)
    elif lax and error.this:
        error = fill_template("TRY_PARSE_JSON(_1) IS NULL", document)
    return fill_template("CASE WHEN _1 IS NULL THEN NULL WHEN _2 THEN TRUE ELSE _3 END", document, there, error)


def json_test(node: exp.Expr) -> exp.Expr | None:
    """Rewrite `s IS JSON`, with or without the kind of JSON."""
    test = node.expression
    if not isinstance(test, exp.JSON):
        return None
    kinds = {"OBJECT": "LIKE 'OBJECT%'", "ARRAY": "LIKE 'ARRAY%'", "SCALAR": "RLIKE '^(?!OBJECT|ARRAY)'"}
    kind = kinds.get(str(test.this or "VALUE").upper())
    sort = f" AND COALESCE(SCHEMA_OF_VARIANT(TRY_PARSE_JSON(_1)) {kind}, FALSE)" if kind else ""
    return fill_template(f"IF(_1 IS NULL, NULL, NOT TRY_PARSE_JSON(_1) IS NULL{sort})", node.this)


# Construction of JSON


def json_object(node: exp.Expr) -> exp.Expr:
    """Rewrite JSON_OBJECT as a struct. Its nulls are written unless ABSENT ON NULL is given."""
    pairs = [p for p in node.expressions if isinstance(p, exp.JSONKeyValue)]
    parts = [part for p in pairs for part in (p.this.copy(), _embed_json(p.expression.copy()))]
    struct = call("NAMED_STRUCT", *parts)
    absent = node.args.get("null_handling") == "ABSENT ON NULL"
    return call("TO_JSON", struct) if absent else write_nulls(struct)


def write_nulls(value: exp.Expr) -> exp.Expr:
    """Write a value as JSON, with the fields that are null."""
    options = call("MAP", exp.Literal.string("ignoreNullFields"), exp.Literal.string("false"))
    return call("TO_JSON", value, options)


def _embed_json(value: exp.Expr) -> exp.Expr:
    """Embed the result of another JSON function as JSON, and not as a string."""
    if not isinstance(value, exp.Anonymous) or value.name.upper() != "TO_JSON":
        return value
    struct = value.expressions[0]
    return struct if len(value.expressions) == 2 or struct.name.upper() != "NAMED_STRUCT" else call("PARSE_JSON", value)


def json_array(node: exp.Expr) -> exp.Expr:
    """Rewrite JSON_ARRAY. Nulls are omitted unless NULL ON NULL is given."""
    values = [v for v in node.expressions if not isinstance(v, exp.Kwarg)]
    parts = [_as_variant(_embed_json(v.copy())) for v in values]
    array: exp.Expr = call("ARRAY", *parts)
    wanted = any(isinstance(a, exp.Kwarg) and isinstance(a.expression, exp.Null) for a in node.expressions)
    return call("TO_JSON", array if wanted else fill_template("FILTER(_1, x -> NOT x IS NULL)", array))


def _as_variant(value: exp.Expr) -> exp.Expr:
    if isinstance(value, exp.Anonymous) and value.name.upper() in ("NAMED_STRUCT", "ARRAY", "FILTER"):
        return fill_template("PARSE_JSON(TO_JSON(_1, MAP('ignoreNullFields', 'false')))", value)
    return exp.Cast(this=value, to=exp.DataType.build("VARIANT", dialect="spark"))


def _rewrite_json_arrayagg(node: exp.Expr) -> exp.Expr:
    """Rewrite JSON_ARRAYAGG. Nulls, if requested, are kept in a struct around each value."""
    template = "TO_JSON(COLLECT_LIST(_1))"
    if isinstance(named_argument(node, "NULLS"), exp.Null):
        template = "TO_JSON(TRANSFORM(COLLECT_LIST(STRUCT(_1 AS v)), x -> x.v))"
    return fill_template(template, node.expressions[0])


def json_objectagg(node: exp.Expr) -> exp.Expr | None:
    pair = node.expressions[0] if node.expressions else None
    if not isinstance(pair, exp.JSONKeyValue):
        return None
    absent = node.args.get("null_handling") == "ABSENT ON NULL"
    entries = "MAP_FROM_ENTRIES(COLLECT_LIST(STRUCT(_1 AS k, _2 AS v)))"
    kept = f"MAP_FILTER({entries}, (k, v) -> NOT v IS NULL)" if absent else entries
    return fill_template(f"TO_JSON({kept}, MAP('ignoreNullFields', 'false'))", pair.this, pair.expression)


JSON_CALLS: Final[Mapping[str, Rewrite]] = {
    "JSON_ARRAY": json_array,
    "JSON_ARRAYAGG": _rewrite_json_arrayagg,
    "JSON_EXISTS": _rewrite_json_exists,
    "JSON_QUERY": _rewrite_json_query,
    "JSON_VALUE": lambda node: _extract_path(node, _SCALAR),
}
