"""UNNEST, which makes rows from an array or a map, as Spark's LATERAL VIEW."""

from sqlglot import exp

from penstock.sql.operands import kind_of


def unnested(select: exp.Expr) -> None:
    """Joins with UNNEST become lateral views, in their order; a left join keeps rows without elements."""
    joins = select.args.get("joins") or []
    views = [join for join in joins if isinstance(join.this, exp.Unnest)]
    if not views:
        return
    select.set("joins", [join for join in joins if join not in views])
    laterals = [*(select.args.get("laterals") or []), *(_view(join) for join in views)]
    select.set("laterals", laterals)


def _view(join: exp.Join) -> exp.Lateral:
    unnest = join.this
    alias = unnest.args.get("alias")
    columns = list(alias.columns) if alias is not None else []
    table = exp.TableAlias(
        this=alias.this.copy() if alias is not None and alias.this is not None else exp.to_identifier("u"),
        columns=[column.copy() for column in columns],
    )
    made = _maker(kind_of(unnest), len(columns))(this=unnest.expressions[0].copy())
    return exp.Lateral(this=made, view=True, outer=join.side == "LEFT", alias=table)


def _maker(kind: str | None, columns: int) -> type[exp.Explode | exp.Inline]:
    """Rows of an array become columns field by field. Where the type is not known, the number of names tells."""
    if kind is not None:
        return exp.Inline if kind.upper().startswith("ARRAY<STRUCT") else exp.Explode
    return exp.Explode if columns == 1 else exp.Inline
