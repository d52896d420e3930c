"""Parse a text into a query, and find and rename the tables that it reads."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot import parse as parse_statements
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.scope import traverse_scope

from penstock.sql.parse.allowed_forms import ForbiddenForm, forbidden_forms
from penstock.sql.parse.dialects import quote_spark_identifier
from penstock.sql.parse.nesting import MAX_BRACKETS, MAX_TYPES, exceeded_depth, type_depth
from penstock.sql.parse.parser_errors import argument_count_error, describe_error
from penstock.sql.parse.window_tvf import BadWindowTableError


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a query. `offset` counts characters from the start of its text."""

    code: str
    message: str
    offset: int = 0
    hint: str | None = None
    subject: str = ""


PARSER_FAILURES: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""Exceptions that the parser itself raises on texts that are far from SQL."""


MAX_QUERIES: Final = 100
"""The maximum number of queries in WITH. If each reads the one before, they nest twice as deep as brackets."""

_SPLIT: Final = "split it into several models; a list in IN (…) or COALESCE(…) is not nested"

Edit: TypeAlias = Callable[[exp.Query], exp.Query]
"""A function that changes a tree. It consumes the tree that it is given."""


class Query:
    """One SELECT, or a set operation over several: a text, and edits to the parsed tree.

    Parsing a tree again is cheaper than copying it. So a query holds at most one tree: a caller that wants to change it
    takes it away, and the query parses the text again when the tree is next used.
    """

    __slots__ = ("_edits", "_tree", "dialect", "text")

    def __init__(
        self, text: str, dialect: Dialect, edits: tuple[Edit, ...] = (), tree: exp.Query | None = None
    ) -> None:
        self.text, self.dialect = text, dialect
        self._edits, self._tree = edits, tree

    @property
    def tree(self) -> exp.Query:
        """The parsed and edited tree. Callers must not change it."""
        if self._tree is None:
            tree = next(_statements(self.text, self.dialect))
            assert isinstance(tree, exp.Query)
            for edit in self._edits:
                tree = edit(tree)
            self._tree = tree
        return self._tree

    def take_tree(self) -> exp.Query:
        """Return the tree for the caller to change. The query parses the text again when it next needs a tree."""
        tree, self._tree = self.tree, None
        return tree

    def with_edit(self, edit: Edit) -> "Query":
        """Add an edit. An existing tree moves to the new query; no tree is parsed for it."""
        if self._tree is None:
            return Query(self.text, self.dialect, (*self._edits, edit))
        return Query(self.text, self.dialect, (*self._edits, edit), edit(self.take_tree()))


@dataclass(frozen=True, slots=True)
class TableReference:
    name: str
    offset: int


def parse(text: str, dialect: Dialect) -> Query | Problem:
    """Parse a user's query, and refuse forms that must not reach Spark."""
    if len(text) > MAX_BRACKETS and type_depth(text) > MAX_TYPES:
        return Problem("sql-syntax", f"a type is nested more than {MAX_TYPES} levels deep", 0, _SPLIT)
    try:
        statements = list(_statements(text, dialect))
    except RecursionError:
        return Problem("sql-syntax", "the SQL is nested too deeply", hint=_SPLIT)
    except BadWindowTableError as bad:
        return Problem(bad.code, bad.message, bad.offset, bad.hint)
    except ParseError as error:
        return _syntax_problem(text, error)
    except TokenError:
        return _unclosed_problem(text)
    except PARSER_FAILURES:
        return Problem("sql-syntax", "the SQL cannot be parsed")
    if not statements:
        return Problem("sql-statement", "there is no SELECT here", hint="write one, or remove it")
    if len(statements) != 1:
        message = f"expected one SELECT statement, found {len(statements)}"
        return Problem("sql-statement", message, hint="make each statement a model or transform of its own")
    (tree,) = statements
    if not isinstance(tree, exp.Query):
        kind = tree.key.upper()
        message = f"expected a SELECT statement, found {kind}"
        return Problem("sql-statement", message, offset_of(tree), "begin with SELECT or WITH")
    if len(text) > MAX_BRACKETS and (most := exceeded_depth(tree)) is not None:
        return Problem("sql-syntax", f"the SQL is nested more than {most:,} levels deep", 0, _SPLIT)
    if len(list(tree.find_all(exp.CTE))) > MAX_QUERIES:
        message = f"there are more than {MAX_QUERIES} queries in WITH"
        return Problem("sql-syntax", message, hint="split it into several models")
    if (refused := next(forbidden_forms(tree), None)) is not None:
        place = _forbidden_offset(refused, text, dialect)
        return Problem("sql-unsupported", refused.message, place, refused.hint, refused.subject)
    return Query(text, dialect, tree=tree)


def _forbidden_offset(refused: ForbiddenForm, text: str, dialect: Dialect) -> int:
    """Return the offset of a refused part: of its own word if the text has it."""
    if isinstance(start := refused.node.meta.get("start"), int):
        return start
    words = refused.subject.upper().split()[:1]
    found = [token.start for token in dialect.tokenize(text) if [token.text.upper().partition(" ")[0]] == words]
    return found[0] if found else start_of(refused.node)


def _statements(text: str, dialect: Dialect) -> Iterator[exp.Expr]:
    """Parse the statements of a text. Comments alone between semicolons are not a statement."""
    for found in parse_statements(text, read=dialect):
        if found is not None and not isinstance(found, exp.Semicolon):
            yield found


def tables(query: Query) -> tuple[TableReference, ...]:
    """Return the tables that a query reads, in order of appearance, without the query's own CTEs."""
    found = [TableReference(full_name(table), offset_of(table)) for table in _outer_tables(query.tree)]
    return tuple(t for t in found if t.name)


def bind_tables(query: Query, names: Mapping[str, str]) -> Query:
    """Rename the tables of a query by `names`: lower-case old name to new name. Each keeps its old name as alias."""

    def edit(tree: exp.Query) -> exp.Query:
        for table in _outer_tables(tree):
            written = full_name(table)
            if (bound := names.get(written.casefold())) is None:
                continue
            if not table.alias:
                plain = written.rpartition(".")[2]
                table.set("alias", exp.TableAlias(this=exp.to_identifier(plain, quoted=True)))
            _rename_table(table, bound)
        return tree

    return query.with_edit(edit)


def rename_tables(query: Query, rename: Callable[[str], str]) -> Query:
    """Rename each table of a query with `rename`, once for each occurrence."""
    renamed = [rename(table.name) for table in _outer_tables(query.tree)]

    def edit(tree: exp.Query) -> exp.Query:
        for table, name in zip(_outer_tables(tree), renamed, strict=True):
            _rename_table(table, name)
        return tree

    return query.with_edit(edit)


def select_all(names: Sequence[str], dialect: Dialect) -> Query:
    """Select all rows of all the tables with UNION ALL."""
    return Query(" UNION ALL ".join(f"SELECT * FROM {quote_spark_identifier(name)}" for name in names), dialect)


def union_by_name(inputs: Mapping[str, Sequence[str]]) -> str:
    """Select all rows of tables with the same columns, in the column order of the first table."""
    names = ", ".join(quote_spark_identifier(name) for name in next(iter(inputs.values())))
    return " UNION ALL ".join(f"SELECT {names} FROM {quote_spark_identifier(table)}" for table in inputs)


def has_subqueries(query: Query) -> bool:
    return query.tree.find(exp.Subquery, exp.CTE) is not None


def _outer_tables(tree: exp.Query) -> list[exp.Table]:
    """Return the tables that are not CTEs in their scope, in the order of the text."""
    found = [table for table in tree.find_all(exp.Table) if table.find_ancestor(exp.Hint) is None]
    if tree.find(exp.CTE) is not None:
        found = _without_ctes(tree, found)
    return sorted({id(table): table for table in found}.values(), key=offset_of)


def _without_ctes(tree: exp.Query, found: list[exp.Table]) -> list[exp.Table]:
    """Return the tables that do not name a CTE. A table outside every scope is included unless a CTE has its name."""
    outer: list[exp.Table] = []
    seen: set[int] = set()
    for scope in traverse_scope(tree):
        visible = {cte.casefold() for cte in scope.cte_sources}
        scoped = [source for source in scope.sources.values() if isinstance(source, exp.Table)]
        seen.update(map(id, scoped))
        outer += [table for table in scoped if table.db or table.name.casefold() not in visible]
    names = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
    rest = (table for table in found if id(table) not in seen)
    return [*outer, *(table for table in rest if table.db or table.name.casefold() not in names)]


def _rename_table(table: exp.Table, name: str) -> None:
    """Rename a table and keep its offset."""
    start = offset_of(table)
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", None)
    table.set("catalog", None)
    table.this.meta["start"] = start


def full_name(table: exp.Table) -> str:
    """Return the name of a table with its catalog and database."""
    return ".".join(part.name for part in table.parts)


def offset_of(node: exp.Expr) -> int:
    """Return the offset of a node: the lowest offset of the names in it."""
    starts = [i.meta["start"] for i in node.find_all(exp.Identifier) if "start" in i.meta]
    return min(starts, default=0)


def start_of(node: exp.Expr) -> int:
    """Return the offset where a node begins: the lowest offset of all tokens in it, functions included."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=0)


def argument_problem(node: exp.Expr, message: str, hint: str | None, subject: str) -> Problem:
    """Report a wrong argument or operand, at the start of a node."""
    return Problem("sql-argument", message, start_of(node), hint, subject)


def _syntax_problem(text: str, error: ParseError) -> Problem:
    detail = error.errors[0] if error.errors else {}
    line, end_column, word = detail.get("line"), detail.get("col"), detail.get("highlight") or ""
    if not isinstance(line, int) or not isinstance(end_column, int):
        return Problem("sql-syntax", "the SQL cannot be parsed")
    before = sum(len(row) for row in text.splitlines(keepends=True)[: line - 1])
    offset = max(before, before + end_column - len(word))
    near = f" near `{word.strip()}`" if word.strip() else ""
    if (miscounted := argument_count_error(str(detail.get("description")))) is not None:
        hint = "docs/reference/functions.md has the arguments of translated functions, Spark's reference all others"
        return Problem("sql-argument", miscounted, offset, hint)
    hint = "look here and just before for a missing comma, bracket or keyword"
    message = f"{describe_error(detail.get('description'))}{near}"
    return Problem("sql-syntax", message, offset, hint, subject=word.strip())


_QUOTED: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|''|\\.)*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)


def _unclosed_problem(text: str) -> Problem:
    """Report the first quote or comment that is not closed."""
    blank = _QUOTED.sub(lambda closed: " " * len(closed[0]), text)
    found = min(((at, mark) for mark in ("'", '"', "`", "/*") if (at := blank.find(mark)) >= 0), default=(0, "'"))
    if found[1] == "/*":
        return Problem("sql-syntax", "a comment is not closed", found[0], "add */ where it ends")
    return Problem("sql-syntax", "a quote is not closed", found[0], "add the closing quote")
