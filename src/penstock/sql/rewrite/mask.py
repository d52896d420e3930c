"""Mask the outputs of a query."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from penstock.sql.parse.query import Query
from penstock.sql.rewrite.templates import call
from penstock.sql.types.columns import Column, Columns, data_type

MaskPolicy: TypeAlias = Literal["hash", "partial", "redact", "tokenize", "null"]
REDACTED: Final = "***"
TOKEN_DIGITS: Final = 32
_WRAPPED: Final = "_unmasked"


@dataclass(frozen=True, slots=True)
class ColumnMask:
    """The mask of one output.

    A salt that refers to a variable, and the key of a token, are not part of the SQL text: they are its parameters.
    """

    column: str
    policy: MaskPolicy
    visible_chars: int = 4
    algorithm: Literal["md5", "sha256"] = "md5"
    salt: str | None = None
    key: str = "PENSTOCK_TOKEN_KEY"

    @property
    def shown(self) -> str:
        return f"{self.policy} ({self.algorithm})" if self.policy == "hash" else self.policy


@dataclass(frozen=True, slots=True)
class MaskParameter:
    """The source of a SQL parameter: a text with `${NAME}` in it, or the inner or outer HMAC key from a variable."""

    kind: Literal["text", "hmac_inner", "hmac_outer"]
    of: str


def mask_parameters(masks: Sequence[ColumnMask]) -> dict[str, MaskParameter]:
    """Return the parameters of a masked query, by name."""
    found: dict[str, MaskParameter] = {}
    for mask in masks:
        if mask.policy == "hash" and mask.salt is not None and "${" in mask.salt:
            found[_salt_name(mask.salt)] = MaskParameter("text", mask.salt)
        elif mask.policy == "tokenize":
            found[f"{mask.key}_inner"] = MaskParameter("hmac_inner", mask.key)
            found[f"{mask.key}_outer"] = MaskParameter("hmac_outer", mask.key)
    return found


def _salt_name(salt: str) -> str:
    return f"salt_{zlib.crc32(salt.encode()):08x}"


def masked_columns(columns: Columns, masks: Sequence[ColumnMask]) -> Columns:
    """Return the columns of a query after masking: a masked column is a STRING; with `null` it keeps its type."""
    by_name = _masks_by_name(masks)
    return tuple(
        Column(c.name, c.type if (m := by_name.get(c.name.casefold())) is None or m.policy == "null" else "STRING")
        for c in columns
    )


def mask_query(query: Query, columns: Columns | None, masks: Sequence[ColumnMask]) -> Query:
    """Mask the outputs of a query in a SELECT around it, so that masks are independent of how outputs are computed.

    If the columns are not known, the masked ones are moved to the end.
    """
    by_name = _masks_by_name(masks)

    def edit(tree: exp.Query) -> exp.Query:
        if columns is None:
            hidden = [exp.to_identifier(mask.column, quoted=True) for mask in masks]
            outputs: list[exp.Expr] = [exp.Star(except_=hidden), *(_mask_column(mask, None) for mask in masks)]
        else:
            outputs = [
                _mask_column(by_name[c.name.casefold()], c.type) if c.name.casefold() in by_name else _column(c.name)
                for c in columns
            ]
        return exp.Select(expressions=outputs).from_(tree.subquery(_WRAPPED, copy=False), copy=False)

    return query.with_edit(edit) if masks else query


def _masks_by_name(masks: Sequence[ColumnMask]) -> Mapping[str, ColumnMask]:
    return {mask.column.casefold(): mask for mask in masks}


def _column(name: str) -> exp.Column:
    return exp.column(name, table=_WRAPPED, quoted=True)


def _mask_column(mask: ColumnMask, kind: str | None) -> exp.Expr:
    """Build the masked value under the name of the column. Null stays null."""
    text = exp.cast(_column(mask.column), data_type("STRING").copy())
    match mask.policy:
        case "null":
            value: exp.Expr = exp.cast(exp.null(), data_type(kind or "STRING").copy())
        case "redact":
            nothing = _column(mask.column).is_(exp.null())
            value = exp.If(this=nothing, true=exp.null(), false=exp.Literal.string(REDACTED))
        case "partial":
            value = _last_characters(text, mask.visible_chars)
        case "hash":
            salted = text if mask.salt is None else call("concat", _salt(mask.salt), text)
            value = call("md5", salted) if mask.algorithm == "md5" else _sha256(salted)
        case "tokenize":
            value = _token(text, mask.key)
    return exp.alias_(value, mask.column, quoted=True)


def _last_characters(text: exp.Expr, visible: int) -> exp.Expr:
    """Replace all but the last characters by stars; a text without more characters than those is all stars."""
    length = call("char_length", text.copy())
    hidden = exp.Sub(this=length.copy(), expression=exp.Literal.number(visible))
    stars = call("repeat", exp.Literal.string("*"), hidden)
    some = call("concat", stars, call("right", text.copy(), exp.Literal.number(visible)))
    every = call("repeat", exp.Literal.string("*"), length.copy())
    return exp.If(this=exp.GT(this=length, expression=exp.Literal.number(visible)), true=some, false=every)


def _token(text: exp.Expr, variable: str) -> exp.Expr:
    """Compute HMAC-SHA256: only an owner of the key can compute a token, and it cannot be reversed."""
    inner, outer = exp.Placeholder(this=f"{variable}_inner"), exp.Placeholder(this=f"{variable}_outer")
    binary = exp.cast(text, data_type("BINARY").copy())
    first = call("unhex", _sha256(call("concat", inner, binary)))
    digest = _sha256(call("concat", outer, first))
    short = call("left", digest, exp.Literal.number(TOKEN_DIGITS))
    return call("concat", exp.Literal.string("tok_"), short)


def _salt(salt: str) -> exp.Expr:
    return exp.Placeholder(this=_salt_name(salt)) if "${" in salt else exp.Literal.string(salt)


def _sha256(value: exp.Expr) -> exp.Expr:
    return call("sha2", value, exp.Literal.number(256))
