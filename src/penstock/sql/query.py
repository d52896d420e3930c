"""From text to a tree: parsing, and which tables the tree reads."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot import parse as parse_statements
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong in a query; `offset` counts characters from the start of its text."""

    code: str
    message: str
    offset: int = 0
    hint: str | None = None
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT, or a set operation over several. The tree is never changed: rewriting works on copies."""

    tree: exp.Query
    dialect: type[Dialect]


@dataclass(frozen=True, slots=True)
class TableName:
    name: str
    offset: int


def parse(text: str, dialect: type[Dialect]) -> Query | Problem:
    try:
        statements = [s for s in parse_statements(text, read=dialect) if s is not None]
    except ParseError as error:
        return _syntax_problem(text, error)
    except TokenError as error:
        start = getattr(error, "start", None)
        return Problem("sql-syntax", "a string or quoted name is not closed", _unclosed(text, start or 0))
    if len(statements) != 1:
        return Problem("sql-statement", f"expected one SELECT statement, found {len(statements)}")
    (tree,) = statements
    if not isinstance(tree, exp.Query):
        kind = tree.key.upper()
        return Problem("sql-statement", f"expected a SELECT statement, found {kind}", _offset(tree))
    return Query(tree, dialect)


def tables(query: Query) -> tuple[TableName, ...]:
    """The tables read, in order of appearance, without the query's own CTEs."""
    local = {cte.alias.casefold() for cte in query.tree.find_all(exp.CTE)}
    found = [
        TableName(_full_name(table), _offset(table))
        for table in query.tree.find_all(exp.Table)
        if table.db or table.name.casefold() not in local
    ]
    return tuple(sorted((t for t in found if t.name), key=lambda t: t.offset))


def bind(query: Query, names: Mapping[str, str]) -> Query:
    """The query with tables renamed (`names`: old name, folded -> new); each keeps its old name as alias."""
    tree = query.tree.copy()
    for table in list(tree.find_all(exp.Table)):
        written = _full_name(table)
        if (bound := names.get(written.casefold())) is None:
            continue
        if not table.alias:
            plain = written.rpartition(".")[2]
            table.set("alias", exp.TableAlias(this=exp.to_identifier(plain, quoted=True)))
        table.set("this", exp.to_identifier(bound, quoted=True))
        table.set("db", None)
        table.set("catalog", None)
    return Query(tree, query.dialect)


def rename_tables(query: Query, rename: Callable[[str], str]) -> Query:
    """The query with each table's name, occurrence by occurrence, put through `rename`."""
    local = {cte.alias.casefold() for cte in query.tree.find_all(exp.CTE)}
    tree = query.tree.copy()
    for table in list(tree.find_all(exp.Table)):
        if table.name.casefold() not in local:
            table.set("this", exp.to_identifier(rename(table.name), quoted=True))
    return Query(tree, query.dialect)


def select_all(names: Sequence[str], dialect: type[Dialect]) -> Query:
    """All rows of all the tables, one after the other."""
    everything = [exp.select("*").from_(exp.Table(this=exp.to_identifier(name, quoted=True))) for name in names]
    tree: exp.Query = everything[0]
    for other in everything[1:]:
        tree = exp.union(tree, other, distinct=False)
    return Query(tree, dialect)


def offset_of(node: exp.Expr) -> int:
    """Where a node stands in the text, by the first of its names that knows."""
    return _offset(node)


def _full_name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _offset(node: exp.Expr) -> int:
    starts = [i.meta["start"] for i in node.find_all(exp.Identifier) if "start" in i.meta]
    return min(starts, default=0)


def _syntax_problem(text: str, error: ParseError) -> Problem:
    detail = error.errors[0] if error.errors else {}
    line, end_column, word = detail.get("line"), detail.get("col"), detail.get("highlight") or ""
    if not isinstance(line, int) or not isinstance(end_column, int):
        return Problem("sql-syntax", "the SQL cannot be parsed")
    before = sum(len(row) for row in text.splitlines(keepends=True)[: line - 1])
    offset = max(before, before + end_column - len(word))
    near = f" near `{word.strip()}`" if word.strip() else ""
    return Problem("sql-syntax", f"{_plain(detail.get('description'))}{near}", offset, subject=word.strip())


_MISSING = re.compile(r"Required keyword: '(\w+)' missing for <class '[\w.]*?(\w+)'>")


def _plain(description: object) -> str:
    """The parser's words without its class names."""
    text = str(description or "the SQL cannot be parsed")
    if found := _MISSING.match(text):
        return f"something is missing in {found[2].upper()}"
    if text.startswith("Invalid expression"):
        return "unexpected word"
    return text[:1].lower() + text[1:]


def _unclosed(text: str, start: int) -> int:
    quotes = [text.find(mark, start) for mark in "'\"`"]
    return min((at for at in quotes if at >= 0), default=start)
