"""User functions in queries: which ones a query calls, their names in Spark SQL, and the errors that they return."""

from typing import Final

from sqlglot import exp

from penstock.sql.parse.dialects import SPARK, parse_spark
from penstock.sql.parse.query import Query
from penstock.sql.types.user_functions import PREFIX, UserFunctions, user_calls

ERROR: Final = "error"
"""The field of a user function's result that has the error of a row."""


def called_functions(query: Query, functions: UserFunctions) -> tuple[str, ...]:
    """Return the names of the user functions that a query calls, in upper case and sorted."""
    return tuple(sorted({function.name.upper() for _, function in user_calls(query.tree, functions)}))


def with_spark_names(query: Query, functions: UserFunctions) -> Query:
    """Give the calls of user functions their names in Spark SQL."""
    if not functions:
        return query

    def edit(tree: exp.Query) -> exp.Query:
        for call, function in list(user_calls(tree, functions)):
            call.set("this", function.spark_name)
        return tree

    return query.with_edit(edit)


def error_expressions(expression: str) -> tuple[str, ...]:
    """Return expressions in Spark SQL for the errors of the user functions in an expression, the inner ones first."""
    if PREFIX not in expression.upper():
        return ()
    tree = parse_spark(f"SELECT {expression}")
    if tree is None:
        return ()
    calls = [call for call in tree.find_all(exp.Anonymous) if call.name.upper().startswith(PREFIX)]
    texts = (f"{call.sql(SPARK, identify=True, comments=False)}.`{ERROR}`" for call in reversed(calls))
    return tuple(dict.fromkeys(texts))
