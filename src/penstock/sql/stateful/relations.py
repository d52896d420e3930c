"""Relations of a SELECT by alias. CTEs are inlined where they are read, because stages cannot see them."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from penstock.sql.parse.query import Query
from penstock.sql.stateful.stages import Flow, QueryRelation, StageBuilder, UnsupportedStream


def collect_relations(
    plan: StageBuilder, select: exp.Select, plan_query: Callable[[exp.Expr], Flow]
) -> list[QueryRelation]:
    """Collect the relations of a SELECT in the order of the text. Subqueries are planned with `plan_query`."""
    nodes = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    found: list[QueryRelation] = []
    for node in nodes:
        match node:
            case exp.Subquery():
                flow = plan_query(node.this)
                found.append(QueryRelation(node.alias or f"_t{len(found)}", node, flow))
            case exp.Table() if (cte := _find_cte(node, plan.local)) is not None:
                found.append(replace(cte, alias=node.alias_or_name, node=node))
            case exp.Table():
                flow = plan.tables.get(node.name, Flow())
                if flow.static:
                    node.set("version", None)  # only the current version exists
                found.append(QueryRelation(node.alias_or_name, node, flow))
            case _:
                found.append(QueryRelation(node.alias_or_name, node, Flow()))
    if found[0].flow.static and all(r.flow.static for r in found):
        raise UnsupportedStream("a table that is read by itself", found[0].node, "join a stream with it")
    return found


def inline_relations(plan: StageBuilder, relations: list[QueryRelation]) -> list[QueryRelation]:
    """Inline the CTEs of relations where they are read, and give every subquery the alias of its columns."""
    found = []
    for relation in relations:
        node = relation.node
        if isinstance(node, exp.Subquery):
            if not node.alias:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(relation.alias)))
            inline_ctes(node, plan.local)
        elif isinstance(node, exp.Table) and (cte := _find_cte(node, plan.local)) is not None:
            node = _inline_cte(cte, node, plan.local)
            relation.node.replace(node)
        found.append(replace(relation, node=node))
    return found


def inline_ctes(query: exp.Expr, local: Mapping[str, QueryRelation]) -> None:
    for table in list(query.find_all(exp.Table)):
        if (cte := _find_cte(table, local)) is not None:
            table.replace(_inline_cte(cte, table, local))


def _inline_cte(cte: QueryRelation, table: exp.Table, local: Mapping[str, QueryRelation]) -> exp.Subquery:
    subquery = _as_subquery(cte.node, table)
    inline_ctes(subquery, local)
    return subquery


def _as_subquery(node: exp.Expr, table: exp.Table) -> exp.Subquery:
    alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
    subquery = exp.Subquery(this=node.copy(), alias=alias)
    if table.args.get("version") is not None:
        subquery.set("version", table.args["version"].copy())
    return subquery


def inline_shared_ctes(query: Query) -> Query:
    """Inline CTEs that are read more than once, so that their inputs are read as often.

    Spark does not support one reader in two branches of a stream with operators.
    """

    def edit(tree: exp.Query) -> exp.Query:
        inline_chosen_ctes(tree, lambda _, readers: readers > 1)
        return tree

    return query.with_edit(edit)


def inline_chosen_ctes(tree: exp.Expr, chosen: Callable[[exp.CTE, int], bool]) -> None:
    """Inline the CTEs that `chosen` selects, given the CTE and the number of its readers."""
    for query in list(tree.find_all(exp.Query)):
        with_ = query.args.get("with_")
        for cte in reversed(list(with_.expressions)) if with_ is not None else ():
            name = cte.alias.casefold()
            readers = [t for t in query.find_all(exp.Table) if not t.db and t.name.casefold() == name]
            if chosen(cte, len(readers)):
                cte.pop()
                for table in readers:
                    table.replace(_as_subquery(cte.this, table))
        if with_ is not None and not with_.expressions:
            query.set("with_", None)


def _find_cte(table: exp.Table, local: Mapping[str, QueryRelation]) -> QueryRelation | None:
    return None if table.db else local.get(table.name.casefold())
