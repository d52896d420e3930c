"""The SQL that people write: Flink SQL in projects, Postgres-like SQL in pipelines."""

import logging
from typing import Final

from sqlglot.dialects.dialect import Dialect, DialectType
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.window_tables import as_subqueries

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # what it has to say is said as diagnostics


class Flink(Spark):
    """Flink SQL as a small difference to Spark SQL, which shares its quoting and most of its types."""

    class Tokenizer(Spark.Tokenizer):
        KEYWORDS = {
            **Spark.Tokenizer.KEYWORDS,
            "BYTES": TokenType.BINARY,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "ROW": TokenType.STRUCT,
            "SESSION": TokenType.VAR,  # the name of a window function
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPTZ,
        }

    def tokenize(self, sql: str, dialect: DialectType = None) -> list[Token]:
        """The parser cannot be taught more by a subclass, because it is compiled."""
        return as_subqueries(super().tokenize(sql, dialect))


PROJECT: Final[Dialect] = Flink()
PIPELINE: Final[Dialect] = Postgres()
SPARK: Final[Dialect] = Spark()


def quoted(name: str) -> str:
    """A name as an identifier, in the quotes of Flink and Spark."""
    return "`" + name.replace("`", "``") + "`"
