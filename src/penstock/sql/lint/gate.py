"""Check SQL before Spark gets it: parse it once more, and refuse it if any part is not allowed.

`forms` keeps such SQL out of a project. This check relies neither on that, nor on the correct rendering of a tree.
"""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from penstock.errors import QueryFailed
from penstock.sql.catalog.function_names import called_name
from penstock.sql.parse.allowed_forms import SAFE_FUNCTIONS, forbidden_forms
from penstock.sql.parse.dialects import WRITTEN, CompiledSpark
from penstock.sql.parse.query import PARSER_FAILURES


class _NamedSpark(CompiledSpark):
    """The Spark dialect, with function names kept as written."""

    ORIGINAL_NAME_META_KEY = WRITTEN


_SPARK: Final = _NamedSpark()
_OWN: Final = "PENSTOCK_"
_IN_GRAMMAR: Final = frozenset({"TIMESTAMPADD", "TIMESTAMPDIFF", "TRY_CAST"})
"""Functions that Spark's parser knows but its list of functions does not have."""
_KNOWN: Final = SAFE_FUNCTIONS | _IN_GRAMMAR
_SELECT: Final = "SELECT "


def check_statement(
    sql: str, views: Collection[str], functions: Collection[str] = (), parameters: Collection[str] = ()
) -> str:
    """Return one SELECT over these views with functions of Spark and these; otherwise raise QueryFailed."""
    return _check_sql(sql, frozenset(views), frozenset(f.upper() for f in functions), frozenset(parameters))


def check_expression(text: str, functions: Collection[str] = ()) -> str:
    """Return the expression if it applies to single rows; otherwise raise QueryFailed."""
    _check_sql(_SELECT + text, frozenset(), frozenset(f.upper() for f in functions), frozenset())
    return text


@lru_cache(maxsize=1024)
def _check_sql(sql: str, views: frozenset[str], functions: frozenset[str], parameters: frozenset[str]) -> str:
    if (reason := next(_refusal_reasons(sql, views, functions, parameters), None)) is not None:
        hint = "this SQL is not sent to Spark; please report the model's SQL if it should be allowed"
        raise QueryFailed("sql-unsupported", reason, hint=hint)
    return sql


def _refusal_reasons(
    sql: str, views: frozenset[str], functions: frozenset[str], parameters: frozenset[str]
) -> Iterator[str]:
    try:
        statements = parse(sql, read=_SPARK)
    except (SqlglotError, RecursionError, *PARSER_FAILURES):
        yield "the SQL cannot be read back"
        return
    tree = statements[0] if len(statements) == 1 else None
    if not isinstance(tree, exp.Query):
        yield "the SQL is not one SELECT"
        return
    for form in forbidden_forms(tree):
        if not isinstance(form.node, exp.Placeholder) or form.node.name not in parameters:
            yield form.message
    ctes = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        is_view = table.name in views or table.name.casefold() in ctes
        if (table.db or not is_view) and table.find_ancestor(exp.JoinHint) is None:
            yield f"the SQL reads `{'.'.join(part.name for part in table.parts)}`, which is no view of its query"
    for call in tree.find_all(exp.Func):
        name = called_name(call).upper()
        if name and name not in _KNOWN and name not in functions and not name.startswith(_OWN):
            yield f"the SQL calls `{name}`, which is no function of Spark"
