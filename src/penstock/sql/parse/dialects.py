"""The SQL dialects of users: Flink SQL in projects, Postgres-like SQL in pipelines."""

import logging
import re
from itertools import pairwise
from typing import Any, ClassVar, Final

from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect, DialectType
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.catalog.pipeline_functions import PIPELINE_TABLE
from penstock.sql.parse.flink_tokenizer import REWORDED, adapt_tokens, derive_token
from penstock.sql.parse.window_tvf import WINDOW_WORDS, expand_window_tables
from penstock.sql.types.flink_inference import METADATA, annotate_division, annotate_time_part, call_annotator

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its messages are reported as diagnostics


_WORD: Final = re.compile(r"\w+")
WRITTEN: Final = "written"
"""The metadata key under which a function call keeps its name as written."""


class CompiledSpark(Spark):
    """The Spark SQL that is generated. The parser would read `GROUP BY WINDOW(` as a clause that names windows."""

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        tokens = self.tokenizer(dialect).tokenize(sql)
        return _retype_window_calls(tokens) if "window(" in sql.lower() else tokens


def _retype_window_calls(tokens: list[Token]) -> list[Token]:
    """Turn `WINDOW` into an ordinary function name where it is a call."""
    found = list(tokens)
    for place, (token, behind) in enumerate(pairwise(tokens)):
        if token.token_type is TokenType.WINDOW and behind.token_type is TokenType.L_PAREN:
            found[place] = derive_token(token, TokenType.VAR, token.text)
    return found


class Flink(Spark):
    """Flink SQL as a variant of Spark SQL, which has the same quoting and most of the same types."""

    ORIGINAL_NAME_META_KEY = WRITTEN
    TYPED_DIVISION = True
    EXPRESSION_METADATA = {**Spark.EXPRESSION_METADATA, **METADATA}
    UNESCAPED_SEQUENCES: dict[str, str] = {}

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["'"]  # a backslash is an ordinary character
        RAW_STRINGS: ClassVar[list[str | tuple[str, str]]] = []
        KEYWORDS = {
            **Spark.Tokenizer.KEYWORDS,
            "BYTES": TokenType.BINARY,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "ROW": TokenType.STRUCT,
            "SESSION": TokenType.VAR,  # the name of a window function
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPTZ,
        }

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """Tokenize, and rewrite what the parser cannot parse. It is compiled, so a subclass cannot extend it.

        Most texts have none of the rewritten words. Looking at every token of every text would cost more than parsing.
        """
        tokens, words = self.tokenizer(dialect).tokenize(sql), set(_WORD.findall(sql.upper()))
        if not words.isdisjoint(WINDOW_WORDS):
            tokens = expand_window_tables(tokens)
        return tokens if words.isdisjoint(REWORDED) else adapt_tokens(tokens)


class Pipelines(Postgres):
    """The SQL of pipelines: PostgreSQL's SQL with additional functions."""

    ORIGINAL_NAME_META_KEY = WRITTEN
    INDEX_OFFSET = 0  # `_element` of `pipeline_calls` counts from 1
    EXPRESSION_METADATA = {
        **Postgres.EXPRESSION_METADATA,
        exp.Anonymous: {"annotator": call_annotator(PIPELINE_TABLE)},
        exp.ArraySize: {"returns": exp.DType.INT},
        exp.Div: {"annotator": annotate_division},
        exp.Extract: {"annotator": annotate_time_part},
    }

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """Tokenize, and mark the functions of pipelines. As in `Flink`, the parser cannot be extended."""
        tokens = self.tokenizer(dialect).tokenize(sql)
        return tokens if PIPELINE_TABLE.keys().isdisjoint(_WORD.findall(sql.upper())) else _mark_calls(tokens)

    def parse(self, sql: str, **opts: Any) -> list[exp.Expr | None]:
        statements = super().parse(sql, **opts)
        for statement in statements:
            for node in statement.find_all(exp.Anonymous) if statement is not None else ():
                node.set("this", node.name.removesuffix(_MARK))
            for some in list(statement.find_all(exp.Any)) if statement is not None else ():
                _rewrite_any(some)
        return statements


def _rewrite_any(some: exp.Any) -> None:
    """Rewrite `value = ANY(list)` as a call."""
    compared, given = some.parent, some.this
    if isinstance(compared, exp.EQ) and some.arg_key == "expression" and isinstance(given, exp.Paren):
        compared.replace(exp.Anonymous(this="array_has", expressions=[given.this, compared.this]))


_MARK: Final = "\N{MIDDLE DOT}"
"""The suffix of a function name that the parser must not recognise."""


def _mark_calls(tokens: list[Token]) -> list[Token]:
    """Mark the functions of pipelines, whatever else their names may mean."""
    found: list[Token] = []
    for token in tokens:
        before = found[-1] if found else None
        if token.token_type is TokenType.L_PAREN and before is not None and _is_call(before, found):
            found[-1] = derive_token(before, TokenType.VAR, before.text + _MARK)
        found.append(token)
    return found


def _is_call(name: Token, found: list[Token]) -> bool:
    is_field = len(found) > 1 and found[-2].token_type in (TokenType.DOT, TokenType.ALIAS)
    return not is_field and name.token_type is not TokenType.STRING and name.text.upper() in PIPELINE_TABLE


class _Template(Flink):
    """The Spark SQL of templates: functions stay unchanged, and a backslash is an ordinary character."""

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        return adapt_tokens(self.tokenizer(dialect).tokenize(sql), keeps=bool)


PROJECT: Final[Dialect] = Flink()
TEMPLATE: Final[Dialect] = _Template()
PIPELINE: Final[Dialect] = Pipelines()
SPARK: Final[Dialect] = CompiledSpark()


def parse_spark(sql: str) -> exp.Expr | None:
    """Parse one statement of Spark SQL; None if it cannot be parsed."""
    try:
        return parse_one(sql, read=SPARK)
    except (SqlglotError, RecursionError):
        return None


def quote_spark_identifier(name: str) -> str:
    """Quote a name as an identifier, as Flink and Spark do."""
    return "`" + name.replace("`", "``") + "`"
