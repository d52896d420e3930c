"""Rewrite UNNEST, which makes rows from an array or a map, as Spark's LATERAL VIEW."""

from typing import Final

from sqlglot import exp

from penstock.sql.analyze.operand_types import operand_kind
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.rewrite.templates import fill_template
from penstock.sql.types.columns import data_type

ENTRIES: Final = "penstock_row_entries"
"""A function whose result type Spark decides: an array of structs, from an array or map of unknown type."""


def rewrite_unnest(select: exp.Expr) -> None:
    """Rewrite joins with UNNEST as lateral views, in their order. A left join keeps rows without elements."""
    joins = select.args.get("joins") or []
    views = [join for join in joins if isinstance(join.this, exp.Unnest)]
    if not views:
        return
    select.set("joins", [join for join in joins if join not in views])
    laterals = [*(select.args.get("laterals") or []), *(_lateral_view(join) for join in views)]
    select.set("laterals", laterals)


def _lateral_view(join: exp.Join) -> exp.Lateral:
    unnest = join.this
    alias = unnest.args.get("alias")
    columns = list(alias.columns) if alias is not None else []
    table = exp.TableAlias(
        this=alias.this.copy() if alias is not None and alias.this is not None else exp.to_identifier("u"),
        columns=[column.copy() for column in columns],
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
        return fill_template(
            f"{ENTRIES}(_1, SLICE(SEQUENCE(1, GREATEST(SIZE(_1), 1)), 1, GREATEST(SIZE(_1), 0)))", given
        )
    known = data_type(kind)
    if known is not None and known.this is exp.DType.MAP:
        return fill_template("TRANSFORM(MAP_ENTRIES(_1), (e, i) -> STRUCT(e.key, e.value, i + 1))", given)
    element = known.expressions[0] if known is not None and known.expressions else None
    fields = element.expressions if element is not None and element.this is exp.DType.STRUCT else ()
    values = "".join(f"e.{quote_spark_identifier(field.name)}, " for field in fields) or "e, "
    return fill_template(f"TRANSFORM(_1, (e, i) -> STRUCT({values}i + 1))", given)
