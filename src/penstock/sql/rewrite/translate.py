"""Translate a parsed query to the text that Spark runs, by a tuple of small rules."""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from penstock.sql.analyze.window_columns import index_windows
from penstock.sql.parse.dialects import PROJECT, SPARK
from penstock.sql.parse.query import Query
from penstock.sql.parse.replacement import replace_node
from penstock.sql.rewrite.functions import rewrite_flink_functions, rewrite_pipeline_functions
from penstock.sql.rewrite.spark_windows import rewrite_windows
from penstock.sql.stateful.joins.time_bounds import has_guards, remove_guards, render_guards

TreeRule = Callable[[exp.Query], exp.Query]


def name_projections(tree: exp.Query) -> exp.Query:
    """Name each unnamed output by its position, counted from 0 and before stars are expanded."""
    for query in tree.find_all(exp.Select):
        for position, projection in enumerate(query.expressions):
            if not projection.is_star and not projection.output_name:
                replace_node(projection, exp.alias_(projection.copy(), f"_col_{position}"))
    return tree


RULES: Final[tuple[TreeRule, ...]] = (name_projections, rewrite_flink_functions)
PIPELINE_RULES: Final[tuple[TreeRule, ...]] = (name_projections, rewrite_pipeline_functions)


def to_spark(query: Query, time: str | None = None) -> str:
    return spark_text(query.take_tree(), time, RULES if query.dialect is PROJECT else PIPELINE_RULES)


def needs_time(tree: exp.Query) -> bool:
    """Whether Spark tracks event time in a query because of its windows."""
    return bool(index_windows(tree).made)


def unguarded_text(tree: exp.Query, time: str | None = None) -> str | None:
    """Render a copy of the tree as Spark SQL without guards; None if it has no guards."""
    return spark_text(remove_guards(tree.copy()), time) if has_guards(tree) else None


def spark_text(tree: exp.Query, time: str | None = None, rules: tuple[TreeRule, ...] = RULES) -> str:
    """Render the tree as Spark SQL, and consume it. `time` is an output that must stay event time for readers."""
    for rule in rules:
        tree = rule(tree)
    tree = rewrite_windows(render_guards(tree), time)
    return tree.sql(SPARK, identify=True, comments=False)
