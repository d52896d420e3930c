"""Operators and forms of Flink SQL that have their own class in the tree, each with its rewrite for Spark."""

import re
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.parse.replacement import replace_node
from penstock.sql.rewrite.json import json_object, json_objectagg, json_test
from penstock.sql.rewrite.templates import Rewrite, call, fill_template, wrap_operand
from penstock.sql.types.columns import data_type
from penstock.sql.types.flink_inference import WHOLE_DAYS, WHOLE_NAMES

DIVIDE: Final = "penstock_row_divide"
MEAN: Final = "penstock_row_mean"
TYPE_OF: Final = "penstock_row_type_of"
"""Our functions that Spark resolves to an expression when it knows the types: `RowOperators` of `clients.jvm.udfs`."""
ENTRIES: Final = "penstock_row_entries"
"""A function whose result type Spark decides: an array of structs, from an array or map of unknown type."""


def _rewrite_division(node: exp.Expr) -> exp.Expr | None:
    """Rewrite a division: integers are divided without remainder. If types are not known, Spark decides later."""
    if (kind := operand_kind(node)) is None:
        return call(DIVIDE, node.this.copy(), node.expression.copy())
    if kind not in WHOLE_NAMES:
        return None
    whole = exp.IntDiv(this=node.this.copy(), expression=node.expression.copy())
    return exp.cast(whole, kind) if kind != "BIGINT" else exp.Paren(this=whole)


def _rewrite_avg(node: exp.Expr) -> exp.Expr | None:
    """Rewrite AVG: the average of integers is an integer, truncated."""
    kind = operand_kind(node)
    values = node.this.expressions if isinstance(node.this, exp.Distinct) else [node.this]
    if (kind is not None and kind not in WHOLE_NAMES) or len(values) != 1:
        return None
    around: exp.Expr = node
    while isinstance(around.parent, exp.Filter | exp.Window) and around.arg_key == "this":
        around = around.parent
    if kind is None:
        decided = call(MEAN, exp.null(), values[0].copy())
        replace_node(around, decided)
        decided.set("expressions", [around, decided.expressions[1]])
    else:
        cut = exp.cast(exp.null(), kind)
        replace_node(around, cut)
        cut.set("this", around)
    return None


def _propagate_nulls(name: str) -> Rewrite:
    """Build the rewrite of GREATEST or LEAST, which return null if one of the values is null."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        values = [node.this, *node.expressions]
        made = call(name, *(v.copy() for v in values))
        unsure = [v for v in values if not isinstance(v, exp.Literal)]
        if not unsure or len(values) == 1:
            return made if len(values) > 1 else values[0].copy()
        missing = exp.or_(*(wrap_operand(v.copy()).is_(exp.null()) for v in unsure), copy=False)
        return exp.If(this=missing, true=exp.null(), false=made)

    return rewrite


def _rewrite_element(node: exp.Expr) -> exp.Expr | None:
    """Rewrite `a[1]`, the first element of an array, and `m['k']`, a value of a map. A missing element is null."""
    keys = node.expressions
    if len(keys) != 1 or isinstance(keys[0], exp.Slice) or node.args.get("offset"):
        return None
    return call("TRY_ELEMENT_AT", node.this.copy(), keys[0].copy())


_EXTRACTS: Final[Mapping[str, str]] = {
    "EPOCH": "UNIX_SECONDS(CAST(_1 AS TIMESTAMP))",
    "MILLISECOND": "(UNIX_MILLIS(CAST(_1 AS TIMESTAMP)) % 1000 + 1000) % 1000",
    "ISOYEAR": "CAST(EXTRACT(YEAROFWEEK FROM _1) AS BIGINT)",
    "ISODOW": "CAST(EXTRACT(DAYOFWEEK_ISO FROM _1) AS BIGINT)",
    "DECADE": "YEAR(_1) DIV 10",
    "CENTURY": "(YEAR(_1) + 99) DIV 100",
    "MILLENNIUM": "(YEAR(_1) + 999) DIV 1000",
}


def _rewrite_extract(node: exp.Expr) -> exp.Expr:
    if (template := _EXTRACTS.get(node.name.upper())) is not None:
        return fill_template(template, node.expression)
    return exp.cast(node.copy(), "BIGINT")


def _round_time(template: str) -> Rewrite:
    """Build the rewrite of FLOOR or CEIL of a time to a unit. A date stays a date."""

    def rewrite(node: exp.Expr) -> exp.Expr | None:
        unit = node.args.get("to")
        if not isinstance(unit, exp.Expr):
            return None
        step, by = ("MONTH", 3) if unit.name.upper() == "QUARTER" else (unit.name.upper(), 1)
        made = fill_template(template.format(unit=unit.name.upper(), step=step, by=by), node.this)
        return _keep_date(made, node)

    return rewrite


def _keep_date(made: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Cast a value that is computed from a date to a date. If the type is not known, Spark decides later."""
    kind = "DATE" if isinstance(node.this, exp.Cast) and node.this.to.this is exp.DType.DATE else operand_kind(node)
    if kind is None:
        return call(TYPE_OF, made, node.this.copy())
    return exp.cast(made, "DATE") if kind == "DATE" else made


def _add_to_date(node: exp.Expr) -> exp.Expr | None:
    """Rewrite TIMESTAMPADD of days or more to a date, which returns a date."""
    if node.text("unit").upper() not in WHOLE_DAYS:
        return None
    made = _keep_date(node.copy(), node)
    return None if isinstance(made, exp.TimestampAdd) else made


def _rewrite_interval(node: exp.Expr) -> exp.Expr | None:
    """Rewrite `INTERVAL '1' QUARTER` as months."""
    if node.text("unit").upper() != "QUARTER" or not node.name.isdecimal():
        return None
    return exp.Interval(this=exp.Literal.string(str(int(node.name) * 3)), unit=exp.var("MONTH"))


def _escape_like(node: exp.Expr) -> exp.Expr | None:
    """Escape backslashes in a LIKE pattern: an ordinary character in Flink, an escape in Spark."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or "\\" not in pattern.name or isinstance(node.parent, exp.Escape):
        return None
    return type(node)(this=node.this.copy(), expression=exp.Literal.string(pattern.name.replace("\\", "\\\\")))


def _rewrite_similar_to(node: exp.Expr) -> exp.Expr | None:
    """Rewrite SIMILAR TO with a literal pattern as a regular expression that must match the whole value."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal):
        return None
    regular = re.sub(r"[%_.^$\\]", lambda found: _SIMILAR.get(found[0], "\\" + found[0]), pattern.name)
    return exp.RegexpLike(this=node.this.copy(), expression=exp.Literal.string(f"^(?:{regular})$"))


_SIMILAR: Final = {"%": ".*", "_": "."}


def _skip_nulls(name: str) -> Rewrite:
    """Build the rewrite of FIRST_VALUE or LAST_VALUE, which ignore nulls."""

    def rewrite(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node.parent, exp.IgnoreNulls | exp.RespectNulls):
            return None
        return call(name, node.this.copy(), exp.true())

    return rewrite


def _rewrite_initcap(node: exp.Expr) -> exp.Expr:
    """Rewrite INITCAP: a word is a sequence of letters and digits."""
    return fill_template(
        "ARRAY_JOIN(TRANSFORM(REGEXP_EXTRACT_ALL(_1, '[A-Za-z0-9]+|[^A-Za-z0-9]+', 0), "
        "w -> IF(w RLIKE '^[A-Za-z0-9]', INITCAP(w), w)), '')",
        node.this,
    )


def _cast_rank(node: exp.Expr) -> exp.Expr | None:
    """Cast row numbers and ranks to BIGINT, their type in Flink; in Spark they are INT."""
    numbered = isinstance(node.this, exp.RowNumber | exp.Rank | exp.DenseRank | exp.Ntile)
    return exp.cast(node.copy(), "BIGINT") if numbered else None


def _rewrite_unnest(select: exp.Expr) -> None:
    """Rewrite joins with UNNEST as lateral views, in their order. A left join keeps rows without elements."""
    joins = select.args.get("joins") or []
    views = [join for join in joins if isinstance(join.this, exp.Unnest)]
    if not views:
        return
    select.set("joins", [join for join in joins if join not in views])
    select.set("laterals", [*(select.args.get("laterals") or []), *map(_lateral_view, views)])


def _lateral_view(join: exp.Join) -> exp.Lateral:
    unnest = join.this
    alias = unnest.args.get("alias") or exp.TableAlias()
    table = exp.TableAlias(
        this=alias.this.copy() if alias.this is not None else exp.to_identifier("u"),
        columns=[column.copy() for column in alias.columns],
    )
    kind, offset, given = operand_kind(unnest), unnest.args.get("offset"), unnest.expressions[0]
    if isinstance(offset, exp.Identifier):
        table.append("columns", offset.copy())
        made: exp.Expr = exp.Inline(this=_number_elements(kind, given))
    elif kind is None:
        made = exp.Inline(this=fill_template(f"{ENTRIES}(_1)", given))
    else:
        maker = exp.Inline if kind.upper().startswith("ARRAY<STRUCT") else exp.Explode
        made = maker(this=given.copy())
    return exp.Lateral(this=made, view=True, outer=join.side == "LEFT", alias=table)


def _number_elements(kind: str | None, given: exp.Expr) -> exp.Expr:
    """Rewrite WITH ORDINALITY: each element, field by field, with its number, counted from 1."""
    if kind is None:
        numbers = "SLICE(SEQUENCE(1, GREATEST(SIZE(_1), 1)), 1, GREATEST(SIZE(_1), 0))"
        return fill_template(f"{ENTRIES}(_1, {numbers})", given)
    known = data_type(kind)
    if known.this is exp.DType.MAP:
        return fill_template("TRANSFORM(MAP_ENTRIES(_1), (e, i) -> STRUCT(e.key, e.value, i + 1))", given)
    element = known.expressions[0] if known.expressions else None
    fields = element.expressions if element is not None and element.this is exp.DType.STRUCT else ()
    values = "".join(f"e.{quote_spark_identifier(field.name)}, " for field in fields) or "e, "
    return fill_template(f"TRANSFORM(_1, (e, i) -> STRUCT({values}i + 1))", given)


OPERATORS: Final[Mapping[type[exp.Expr], Rewrite]] = {
    exp.Avg: _rewrite_avg,
    exp.Bracket: _rewrite_element,
    exp.Ceil: _round_time("DATE_TRUNC('{unit}', _1 + INTERVAL '{by}' {step} - INTERVAL '1' MICROSECOND)"),
    exp.Div: _rewrite_division,
    exp.Extract: _rewrite_extract,
    exp.FirstValue: _skip_nulls("FIRST_VALUE"),
    exp.Floor: _round_time("DATE_TRUNC('{unit}', _1)"),
    exp.Greatest: _propagate_nulls("GREATEST"),
    exp.ILike: _escape_like,
    exp.Initcap: _rewrite_initcap,
    exp.Interval: _rewrite_interval,
    exp.Is: json_test,
    exp.JSONObject: json_object,
    exp.JSONObjectAgg: json_objectagg,
    exp.LastValue: _skip_nulls("LAST_VALUE"),
    exp.Least: _propagate_nulls("LEAST"),
    exp.Like: _escape_like,
    exp.Select: _rewrite_unnest,
    exp.SimilarTo: _rewrite_similar_to,
    exp.TimestampAdd: _add_to_date,
    exp.TimestampDiff: lambda node: exp.cast(node.copy(), "INT"),
    exp.Window: _cast_rank,
}
