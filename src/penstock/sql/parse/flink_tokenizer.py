"""Rewrite the tokens of Flink SQL so that Spark's parser understands them.

The parser is compiled and cannot be extended, so unknown syntax is rewritten before parsing: `MAP['a', 1]` as
`MAP('a', 1)`, and clauses inside a call as named arguments: `JSON_VALUE(j, '$.a' NULL ON EMPTY)` as
`JSON_VALUE(j, '$.a', EMPTY => NULL)`. A function with another meaning in Spark is marked, so that the parser leaves it
unchanged. Tokens keep their offsets.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.sql.catalog.flink_functions import TABLE

_JSON: Final = frozenset({"JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", "JSON_ARRAY", "JSON_ARRAYAGG"})
REWORDED: Final = frozenset({*TABLE, *_JSON, "CEILING", "INTERVAL", "LOCALTIMESTAMP", "MAP"})
"""The words that may need rewriting. A text without any of them is not rewritten."""
_EVENTS: Final = frozenset({"EMPTY", "ERROR", "NULL"})
_CHOICES: Final = frozenset({"NULL", "ERROR", "TRUE", "FALSE", "UNKNOWN", "ABSENT", "EMPTY ARRAY", "EMPTY OBJECT"})
_OPEN: Final = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSE: Final = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})


@dataclass(slots=True)
class _OpenBracket:
    """An open bracket: the function that it belongs to, and the clause that has begun in it."""

    name: str
    default_at: int | None = None
    in_type: bool = False


def adapt_tokens(tokens: list[Token], keeps: Callable[[str], bool] = TABLE.__contains__) -> list[Token]:
    """Rewrite tokens. `keeps` selects the functions that the parser must leave unchanged."""
    found: list[Token] = []
    open_calls: list[_OpenBracket] = []
    skipped = 0
    for at, token in enumerate(tokens):
        if skipped:
            skipped -= 1
            continue
        kind = token.token_type
        if kind is TokenType.L_PAREN and _is_precision(found):
            skipped = 2  # the precision of an interval has no effect
        elif kind in _OPEN:
            name = _call_name(found, kind)
            open_calls.append(_OpenBracket(name))
            found.append(derive_token(token, TokenType.L_PAREN, "(") if name == "MAP" else token)
        elif kind in _CLOSE and open_calls:
            call = open_calls.pop()
            if call.in_type:
                found.append(derive_token(token, TokenType.R_PAREN, ")"))
            if keeps(call.name):
                token.comments.append(exp.SQLGLOT_ANONYMOUS)
            found.append(derive_token(token, TokenType.R_PAREN, ")") if call.name == "MAP" else token)
        elif open_calls and open_calls[-1].name in _JSON:
            skipped = _append_clause(tokens, at, found, open_calls[-1])
        elif kind in _PLAIN and not (found and found[-1].token_type in _NAMED):
            found.append(_rename_word(token, tokens, at))
        else:
            found.append(token)
    return found


_PLAIN: Final = frozenset({TokenType.VAR, TokenType.LOCALTIMESTAMP})
_NAMED: Final = frozenset({TokenType.DOT, TokenType.ALIAS})
"""Tokens after which any word is a name."""


def _rename_word(token: Token, tokens: list[Token], at: int) -> Token:
    word = token.text.upper()
    if word == "LOCALTIMESTAMP":
        return derive_token(token, TokenType.CURRENT_TIMESTAMP, "CURRENT_TIMESTAMP")
    if word == "CEILING" and _upper_word(tokens, at + 1) == "(":
        return derive_token(token, TokenType.VAR, "CEIL")
    return token


def _is_precision(before: list[Token]) -> bool:
    """Whether a bracket follows `INTERVAL '100' DAY`."""
    return len(before) > 2 and before[-2].token_type is TokenType.STRING and before[-3].token_type is TokenType.INTERVAL


def _call_name(before: list[Token], bracket: TokenType) -> str:
    """Return the function name before a bracket; empty if the bracket does not begin a call."""
    if not before or (len(before) > 1 and before[-2].token_type is TokenType.DOT):
        return ""
    name = before[-1].text.upper() if before[-1].token_type is not TokenType.STRING else ""
    if bracket is TokenType.L_BRACKET:
        return name if name == "MAP" else ""
    return name


def _append_clause(tokens: list[Token], at: int, found: list[Token], call: _OpenBracket) -> int:
    """Append the token at an index to `found`. Return the number of later tokens that are consumed with it."""
    token = tokens[at]
    word = token.text.upper()
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        found.append(token)
        return 0
    if word == "ON" and call.default_at is not None and _upper_word(tokens, at + 1) in _EVENTS:
        found[call.default_at] = derive_token(found[call.default_at], TokenType.VAR, _upper_word(tokens, at + 1))
        call.default_at = None
        return 1
    if word == "RETURNING":
        _begin_argument(found, token, call, "RETURNING")
        spelled = ((TokenType.VAR, "CAST"), (TokenType.L_PAREN, "("), (TokenType.NULL, "NULL"), (TokenType.ALIAS, "AS"))
        found.extend(derive_token(token, *word) for word in spelled)
        call.in_type = True
        return 0
    if word == "DEFAULT":
        _begin_argument(found, token, call, "")
        call.default_at = len(found) - 2
        return 0
    for words in (1, 2) if call.default_at is None else ():
        choice = " ".join(_upper_word(tokens, at + n) for n in range(words))
        event = _upper_word(tokens, at + words + 1)
        if choice in _CHOICES and _upper_word(tokens, at + words) == "ON" and event in _EVENTS:
            _begin_argument(found, token, call, "NULLS" if event == "NULL" else event)
            found.append(derive_token(token, TokenType.STRING, choice) if choice != "NULL" else token)
            return words + 1
    if word in ("WITH", "WITHOUT"):
        last = next((n for n in range(1, 4) if _upper_word(tokens, at + n) == "WRAPPER"), None)
        if last is not None:
            _begin_argument(found, token, call, "WRAPPER")
            said = "NEVER" if word == "WITHOUT" else _upper_word(tokens, at + 1)
            found.append(derive_token(token, TokenType.STRING, said))
            return last
    found.append(token)
    return 0


def _begin_argument(found: list[Token], token: Token, call: _OpenBracket, name: str) -> None:
    """End the current argument and begin a named one."""
    if call.in_type:
        found.append(derive_token(token, TokenType.R_PAREN, ")"))
        call.in_type = False
    if found[-1].token_type is not TokenType.L_PAREN:
        found.append(derive_token(token, TokenType.COMMA, ","))
    found += [derive_token(token, TokenType.VAR, name), derive_token(token, TokenType.FARROW, "=>")]


def _upper_word(tokens: list[Token], at: int) -> str:
    return tokens[at].text.upper() if at < len(tokens) else ""


def derive_token(token: Token, kind: TokenType, text: str) -> Token:
    """Build a token at the place of another one."""
    return Token(kind, text, token.line, token.col, token.start, token.end)
