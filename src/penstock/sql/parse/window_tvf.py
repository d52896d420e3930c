"""Rewrite windows over tables, `TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), …))`, as subqueries.

The parser cannot parse them, so the tokens are rewritten before parsing; each token keeps its offset in the text:

    (SELECT *, TUMBLE_START(ts, …) AS window_start, TUMBLE_END(ts, …) AS window_end, … FROM t)
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import did_you_mean
from penstock.sql.parse.flink_tokenizer import derive_token

SPANS: Final[Mapping[str, tuple[str, ...]]] = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
}
"""The kinds of windows, and the intervals that each takes. The offset is optional."""
WINDOW_WORDS: Final = frozenset({*SPANS, "DESCRIPTOR"})
"""The words of windows over tables. A text without any of them has no such window, not even a wrong one."""
WINDOW_PARTS: Final = frozenset(f"{kind}_{part}" for kind in SPANS for part in ("START", "END", "ROWTIME", "PROCTIME"))
"""The functions that return the start, end and time of a window."""
WINDOW_COLUMNS: Final = {"window_start": "START", "window_end": "END", "window_time": "ROWTIME"}
"""The columns that a window adds to its table, and the suffixes of the functions that return them."""


class BadWindowTableError(Exception):
    """A window over a table with a wrong syntax."""

    def __init__(self, message: str, offset: int, hint: str, code: str = "window-invalid") -> None:
        super().__init__(message)
        self.message, self.offset, self.hint, self.code = message, offset, hint, code


def expand_window_tables(tokens: list[Token]) -> list[Token]:
    """Rewrite the windows over tables in a text as subqueries."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        wrapped = _is_token(tokens, at, TokenType.TABLE) and _is_token(tokens, at + 1, TokenType.L_PAREN)
        name = at + 2 if wrapped else at
        if _is_window_table(tokens, name, wrapped=wrapped):
            end = _closing_index(tokens, name + 1)
            found += _window_subquery(tokens[name], tokens[name + 2 : end])
            at = end + 1
            if wrapped:
                at = _skip_closing(tokens, at, tokens[name - 1])
        else:
            _refuse_unknown_window(tokens, name)
            found.append(tokens[at])
            at += 1
    return found


def _refuse_unknown_window(tokens: Sequence[Token], at: int) -> None:
    """Refuse a call with DESCRIPTOR that is not a window over a table: a wrong name, or a missing `TABLE`."""
    if not _is_token(tokens, at + 1, TokenType.L_PAREN) or not any(
        tokens[before].token_type in _BEFORE_TABLES for before in (at - 1, at - 3) if before >= 0
    ):
        return
    inside = _split_arguments(tokens[at + 2 : _closing_index(tokens, at + 1)])
    if not any(argument and argument[0].text.upper() == "DESCRIPTOR" for argument in inside):
        return
    word, start = tokens[at].text, tokens[at].start
    if word.upper() in SPANS:
        hint = f"write TABLE({word.upper()}({_EXAMPLES[word.upper()]}))"
        raise BadWindowTableError(f"{word.upper()} is given no TABLE", start, hint)
    hint = did_you_mean(word.upper(), SPANS) or f"the windows are {', '.join(SPANS)}"
    raise BadWindowTableError(f"there is no function `{word}`", start, hint, "sql-unknown-function")


_BEFORE_TABLES: Final = frozenset({TokenType.FROM, TokenType.JOIN, TokenType.COMMA})


def _is_window_table(tokens: Sequence[Token], at: int, *, wrapped: bool) -> bool:
    """Whether a window function is called over a table, and not over a column."""
    is_call = at + 2 < len(tokens) and _is_token(tokens, at + 1, TokenType.L_PAREN)
    if not is_call or tokens[at].text.upper() not in SPANS:
        return False
    named = _is_token(tokens, at + 3, TokenType.FARROW)
    queried = _is_token(tokens, at + 2, TokenType.L_PAREN) and _is_token(tokens, at + 3, TokenType.SELECT)
    return wrapped or named or queried or _is_token(tokens, at + 2, TokenType.TABLE)


def _window_subquery(name: Token, inside: Sequence[Token]) -> list[Token]:
    kind = name.text.upper()
    given = _bind_arguments(kind, name, inside)
    table, keys = _parse_table(given["DATA"])
    arguments = [_descriptor_column(given["TIMECOL"]), *(given[span] for span in SPANS[kind] if span in given), *keys]

    word = partial(derive_token, name)
    comma = word(TokenType.COMMA, ",")
    found = [word(TokenType.L_PAREN, "("), word(TokenType.SELECT, "SELECT"), word(TokenType.STAR, "*")]
    for column, part in WINDOW_COLUMNS.items():
        found += [comma, word(TokenType.VAR, f"{kind}_{part}"), word(TokenType.L_PAREN, "(")]
        for place, argument in enumerate(arguments):
            found += [comma, *argument] if place else argument
        found += [word(TokenType.R_PAREN, ")"), word(TokenType.ALIAS, "AS"), word(TokenType.VAR, column)]
    return [*found, word(TokenType.FROM, "FROM"), *table, word(TokenType.R_PAREN, ")")]


def _bind_arguments(kind: str, name: Token, inside: Sequence[Token]) -> dict[str, Sequence[Token]]:
    """Return the tokens of each argument, named or by position."""
    order = ("DATA", "TIMECOL", *SPANS[kind])
    hint = f"write {kind}({_EXAMPLES[kind]})"
    given: dict[str, Sequence[Token]] = {}
    for place, argument in enumerate(_merge_key_arguments(_split_arguments(inside))):
        if not argument:
            raise BadWindowTableError(f"an argument of {kind} is missing", name.start, hint)
        if len(argument) > 1 and argument[1].token_type == TokenType.FARROW:
            meant, value = argument[0].text.upper(), argument[2:]
        else:
            meant, value = order[place] if place < len(order) else "", argument
        if meant not in order:
            text = f"{kind} has no argument `{meant}`" if meant else f"{kind} has too many arguments"
            raise BadWindowTableError(text, argument[0].start, did_you_mean(meant, order) or hint)
        if meant in given or not value:
            text = f"{meant} is given twice" if value else f"{meant} of {kind} has no value"
            raise BadWindowTableError(text, argument[0].start, hint)
        given[meant] = value
    for wanted in order:
        if wanted not in given and wanted != "OFFSET":
            raise BadWindowTableError(f"{kind} needs {wanted}", name.start, hint)
    return given


_EXAMPLES: Final[Mapping[str, str]] = {
    "TUMBLE": "TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR",
    "HOP": "TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR",
    "SESSION": "TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE",
    "CUMULATE": "TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY",
}


def _parse_table(data: Sequence[Token]) -> tuple[Sequence[Token], list[Sequence[Token]]]:
    """Return the table of a window and its partition columns. Other errors are left to the parser."""
    hint, start = "write `TABLE name`, or a SELECT in brackets", data[0].start
    if data[0].token_type == TokenType.TABLE:
        data = data[1:]
    elif data[0].token_type != TokenType.L_PAREN:
        raise BadWindowTableError("a window needs a table", start, hint)
    keywords = (at for at, token in enumerate(data) if token.token_type == TokenType.PARTITION_BY)
    parted = next((at for at in keywords if not _bracket_depth(data, at)), None)
    table, keys = (data, data[:0]) if parted is None else (data[:parted], data[parted + 1 :])
    if not table:
        raise BadWindowTableError("a window needs a table", start, hint)
    if keys and keys[0].token_type == TokenType.L_PAREN:
        keys = keys[1 : _closing_index(keys, 0)]
    return expand_window_tables(list(table)), [key for key in _split_arguments(keys) if key]


def _descriptor_column(time: Sequence[Token]) -> Sequence[Token]:
    """Return the column in `DESCRIPTOR(ts)`."""
    if len(time) < 4 or time[0].text.upper() != "DESCRIPTOR" or time[1].token_type != TokenType.L_PAREN:
        raise BadWindowTableError("a window needs a time column", time[0].start, "write DESCRIPTOR(column)")
    inside = time[2 : _closing_index(time, 1)]
    if len(_split_arguments(inside)) > 1:
        raise BadWindowTableError("a window takes one time column", time[0].start, "write DESCRIPTOR(column)")
    return inside


def _merge_key_arguments(arguments: list[Sequence[Token]]) -> list[Sequence[Token]]:
    """Merge the keys of `PARTITION BY a, b` into one argument, up to the next named argument or DESCRIPTOR."""
    joined: list[Sequence[Token]] = []
    parted = False
    for argument in arguments:
        is_descriptor = len(argument) > 1 and argument[0].text.upper() == "DESCRIPTOR"
        if parted and not is_descriptor and not _is_token(argument, 1, TokenType.FARROW):
            joined[-1] = [*joined[-1], Token(TokenType.COMMA, ","), *argument]
            continue
        parted = any(t.token_type == TokenType.PARTITION_BY for t in argument)
        joined.append(argument)
    return joined


def _split_arguments(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Split tokens at the commas outside of brackets."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += _STEPS.get(token.token_type, 0)
        if token.token_type == TokenType.COMMA and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return [*parts]


_STEPS: Final = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}


def _bracket_depth(tokens: Sequence[Token], end: int) -> int:
    return sum(_STEPS.get(token.token_type, 0) for token in tokens[:end])


def _closing_index(tokens: Sequence[Token], opened: int) -> int:
    """Return the index of the bracket that closes the one at `opened`."""
    depth = 0
    for at in range(opened, len(tokens)):
        depth += _STEPS.get(tokens[at].token_type, 0)
        if not depth:
            return at
    raise _unclosed_error(tokens[opened])


def _skip_closing(tokens: Sequence[Token], at: int, opened: Token) -> int:
    """Return the index after a bracket that must close here."""
    if not _is_token(tokens, at, TokenType.R_PAREN):
        raise _unclosed_error(opened)
    return at + 1


def _unclosed_error(opened: Token) -> BadWindowTableError:
    return BadWindowTableError("a bracket is not closed", opened.start, "add the closing bracket", "sql-syntax")


def _is_token(tokens: Sequence[Token], at: int, kind: TokenType) -> bool:
    return at < len(tokens) and tokens[at].token_type == kind
