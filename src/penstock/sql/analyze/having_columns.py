"""Assign columns to their tables, also in HAVING and QUALIFY, where sqlglot leaves them open as possible outputs."""

from typing import Final

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.resolver import Resolver
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.schema import MappingSchema

_FOUND: Final = "owner found"


def qualify_tree(tree: exp.Query, schema: MappingSchema, dialect: Dialect) -> exp.Query | None:
    """Qualify every known column with its table. Consumes the tree; returns None if the tree cannot be qualified."""
    try:
        qualified = qualify(
            tree,
            schema=schema,
            dialect=dialect,
            allow_partial_qualification=True,
            expand_alias_refs=False,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
    except SqlglotError:
        return None
    if not isinstance(qualified, exp.Query):
        return None
    _qualify_having(qualified, schema)
    return qualified


def _qualify_having(tree: exp.Query, schema: MappingSchema) -> None:
    """Qualify the columns in HAVING and QUALIFY, in a tree whose other columns are qualified."""
    for scope in traverse_scope(tree):
        select = scope.expression
        clauses = [select.args.get(name) for name in ("having", "qualify")]
        if not isinstance(select, exp.Select) or not any(clauses):
            continue
        resolver, outputs = Resolver(scope, schema), output_aliases(select)
        for column in (column for clause in clauses if clause is not None for column in clause.find_all(exp.Column)):
            is_own = not column.table and column.parent_select is select
            if is_own and (column.name not in outputs or column.find_ancestor(exp.AggFunc, exp.Select) is not select):
                column.set("table", table.copy() if (table := resolver.get_table(column)) is not None else None)
                column.meta[_FOUND] = True


def has_found_owner(node: exp.Expr) -> bool:
    """Whether an expression has a column that `_qualify_having` qualified."""
    return any(column.meta.get(_FOUND) for column in node.find_all(exp.Column))


def output_aliases(select: exp.Select) -> dict[str, exp.Expr]:
    """Return the outputs of a SELECT that are not columns under their own names."""
    named = [e for e in select.expressions if isinstance(e, exp.Alias)]
    return {e.alias: e for e in named if not isinstance(e.this, exp.Column) or e.this.name != e.alias}
