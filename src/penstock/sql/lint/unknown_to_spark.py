"""Find functions and operators in translated SQL that Spark lacks."""

from collections.abc import Iterator
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from penstock.sql.catalog.function_names import written_name
from penstock.sql.catalog.spark_functions import SPARK_NAMES
from penstock.sql.parse.dialects import SPARK
from penstock.sql.parse.query import Problem, Query, start_of
from penstock.sql.rewrite.functions import pipeline_rule
from penstock.sql.rewrite.translate import to_spark
from penstock.sql.types.int256 import NAMES as WIDE_NAMES

_KNOWN: Final = SPARK_NAMES | WIDE_NAMES | {"TRY_CAST"}
_OWN: Final = "PENSTOCK_"
_OPERATORS: Final = frozenset(
    {
        TokenType.ADJACENT, TokenType.AT_GT, TokenType.CARET_AT, TokenType.DAMP, TokenType.DHASH_ARROW,
        TokenType.HASH_ARROW, TokenType.LT_AT, TokenType.OPERATOR, TokenType.PARAMETER, TokenType.PLACEHOLDER,
        TokenType.SIMILAR_TO,
    }
)  # fmt: skip
_HINT: Final = "docs/sql.md lists the functions and operators"


def find_spark_unknowns(query: Query) -> Iterator[Problem]:
    """Report the first function or operator that Spark lacks in the translated query."""
    tokens = SPARK.tokenize(to_spark(query))
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        word = token.text.upper()
        if token.token_type in _OPERATORS:
            place = next((t.start for t in query.dialect.tokenize(query.text) if t.text.upper() == word), 0)
            yield Problem("sql-unsupported", f"Spark has no operator {token.text}", place, _HINT, word)
            return
        called = token.token_type is TokenType.VAR and after is not None and after.token_type is TokenType.L_PAREN
        if called and word not in _KNOWN and not word.startswith(_OWN):
            node = _source_call(query, word)
            name = word if node is None else written_name(node)
            text = f"{name.lower()} has no equivalent in Spark"
            yield Problem("sql-unsupported", text, 0 if node is None else start_of(node), _HINT, name)
            return


def _source_call(query: Query, word: str) -> exp.Expr | None:
    """Return the node that was translated to a call of this name."""
    found = (node for node in query.tree.find_all(exp.Func) if pipeline_rule(node) is None)
    return next((node for node in found if node.sql(SPARK).partition("(")[0].upper() == word), None)
