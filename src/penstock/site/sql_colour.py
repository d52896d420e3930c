"""Colours SQL with Jinja. It scans tokens and does not parse, so incomplete queries work too."""

import re

from markupsafe import Markup, escape

_KEYWORDS = frozenset(
    """
    add all and anti any array as asc at between both by case cast cluster cross cube current date day days delay desc
    distinct distribute else end escape event except exists explode extract false filter first following for from full
    group grouping having hour hours if ilike in inner intersect interval into is join last lateral leading left like
    limit map match_recognize minus minute minutes month natural no not null nulls of offset on or order outer over
    partition pivot preceding qualify range recursive right rlike rollup row rows second seconds select semi set sets
    sort struct table tablesample then time timestamp to trailing true try_cast unbounded union unnest unpivot using
    values view watermark when where window with within year
    """.split()  # noqa: SIM905
)

_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) | \{\#.*?(?:\#\}|\Z) )
    | (?P<jinja>   \{\{.*?(?:\}\}|\Z) | \{%.*?(?:%\}|\Z) )
    | (?P<string>  '(?:[^'\\]|\\.|'')*'? | "(?:[^"\\]|\\.)*"? )
    | (?P<quoted>  `[^`]*`? )
    | (?P<number>  \b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b )
    | (?P<word>    [^\W\d]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)


def colour_sql(text: str) -> Markup:
    """The text as HTML. Without the tags it is the escaped text."""
    pieces: list[Markup] = []
    end = 0
    for token in _TOKEN.finditer(text):
        pieces.append(escape(text[end : token.start()]))
        pieces.append(_colour_token(token, text))
        end = token.end()
    pieces.append(escape(text[end:]))
    return Markup("").join(pieces)


def _colour_token(token: re.Match[str], text: str) -> Markup:
    kind = token.lastgroup
    if kind == "word":
        if token[0].lower() in _KEYWORDS:
            kind = "keyword"
        elif text[token.end() : token.end() + 1] == "(":
            kind = "function"
        else:
            return escape(token[0])
    return Markup('<span class="sql-{}">{}</span>').format(kind, token[0])
