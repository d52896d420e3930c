"""The SQL that people write: Flink SQL in projects, Postgres-like SQL in pipelines."""

import logging
import re
from typing import ClassVar, Final

from sqlglot.dialects.dialect import Dialect, DialectType
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.flink_tokens import REWORDED, as_spark_reads
from penstock.sql.flink_types import METADATA
from penstock.sql.window_tables import WINDOW_WORDS, as_subqueries

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it has to say is said as diagnostics


_WORD: Final = re.compile(r"\w+")
WRITTEN: Final = "written"
"""Where a call of a function keeps the name that people wrote."""


class Flink(Spark):
    """Flink SQL as a small difference to Spark SQL, which shares its quoting and most of its types."""

    ORIGINAL_NAME_META_KEY = WRITTEN
    TYPED_DIVISION = True
    EXPRESSION_METADATA = {**Spark.EXPRESSION_METADATA, **METADATA}
    UNESCAPED_SEQUENCES: dict[str, str] = {}

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["'"]  # a backslash is a character like any other
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
        """The parser cannot be taught more by a subclass, because it is compiled.

        Most texts have none of the words that are said anew; to look at the words of all of them would cost more than
        to parse them.
        """
        tokens, words = self.tokenizer(dialect).tokenize(sql), set(_WORD.findall(sql.upper()))
        if not words.isdisjoint(WINDOW_WORDS):
            tokens = as_subqueries(tokens)
        return tokens if words.isdisjoint(REWORDED) else as_spark_reads(tokens)


class _Template(Flink):
    """Spark SQL that is written here: functions stay as they are, and a backslash is a backslash."""

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        return as_spark_reads(self.tokenizer(dialect).tokenize(sql), keeps=bool)


PROJECT: Final[Dialect] = Flink()
TEMPLATE: Final[Dialect] = _Template()
PIPELINE: Final[Dialect] = Postgres()
SPARK: Final[Dialect] = Spark()


def quoted(name: str) -> str:
    """A name as an identifier, in the quotes of Flink and Spark."""
    return "`" + name.replace("`", "``") + "`"
